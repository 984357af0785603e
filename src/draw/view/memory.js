// Memory over the time of a run: what is alive while each node runs, and what that is at the peak.

import {withUnit} from "./data.js";
import {element, shape} from "./dom.js";
import {itemButton} from "./card.js";

const CURVE = {wide: 300, high: 90, listed: 5};

// Nodes of a frame in their order: the bytes alive at each, and from when to when it runs. Time is
// measured where a profile tells it, else every node counts as one.
function rowsOf(graph, frame) {
    const alive = graph.fact("alive (bytes)"), time = graph.fact("time (us)");
    const rows = [];
    let at = 0;
    for (const [i, bytes] of alive ? [...alive.values].sort((a, b) => a[0] - b[0]) : []) {
        if (!graph.contains(frame, i) || typeof bytes !== "number")
            continue;
        const long = time ? time.values.get(i) || 0 : 1;
        rows.push({i, bytes, from: at, to: at + long});
        at += long;
    }
    return {rows, end: at, timed: time !== null};
}

// The results that take most of the memory at a node, the largest first.
function aliveAt(graph, node) {
    const bytes = graph.fact("result (bytes)");
    return [...graph.until].filter(([i, last]) => i <= node && last >= node && bytes.of(i))
        .map(([i]) => [i, bytes.of(i)]).sort((a, b) => b[1] - a[1]).slice(0, CURVE.listed);
}

// The curve: a slider over nodes, which arrow keys move along and a click goes to.
function curveOf(pane, {rows, end}, peak) {
    const {graph, viewer} = pane, {wide, high} = CURVE;
    const x = (t) => wide * t / end;
    const y = (bytes) => high - (high - 6) * bytes / (peak.bytes || 1);
    const found = rows.findIndex(({i}) => i === pane.picked), at = found < 0 ? rows.indexOf(peak)
        : found;
    const here = rows[at], middle = x((here.from + here.to) / 2);
    const path = rows.map((r) => `V${y(r.bytes).toFixed(2)}H${x(r.to).toFixed(2)}`).join("");
    const go = (k) => {
        viewer.go(pane, rows[Math.min(rows.length - 1, Math.max(0, k))].i);
        document.querySelector("#charts [role=slider]")?.focus();
    };
    const keys = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: rows.length - 1};
    const svg = shape("svg", {
        viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", class: "chart curve",
        role: "slider", tabindex: 0, "aria-label": "memory alive, node by node",
        "aria-valuemin": 1, "aria-valuemax": rows.length, "aria-valuenow": at + 1,
        "aria-valuetext": `${graph.name(here.i)}, ${withUnit(here.bytes, "bytes")}`,
        onkeydown: (e) => {
            if (!(e.key in keys) || e.shiftKey)
                return;
            e.preventDefault();
            e.stopPropagation();
            go(keys[e.key]);
        },
        onclick: (e) => {
            const {left, width} = svg.getBoundingClientRect();
            const t = end * (e.clientX - left) / width;
            const k = rows.findIndex((r) => t < r.to);
            go(k < 0 ? rows.length - 1 : k);
        },
    }, shape("path", {class: "area", d: `M0 ${high}${path}V${high}Z`}),
    shape("path", {class: found < 0 ? "peak" : "here", d: `M${middle.toFixed(2)} 0V${high}`}));
    return svg;
}

// The panel of the frame that is picked, or of the whole graph; null where nothing is known.
export function memoryPanel(pane) {
    const {graph, picked} = pane;
    const frame = picked > 0 && !graph.isNode(picked) ? picked : 0, of = rowsOf(graph, frame);
    if (of.rows.length < 3 || !of.end)
        return null;
    const peak = of.rows.reduce((a, b) => (b.bytes > a.bytes ? b : a));
    const here = of.rows.find(({i}) => i === picked);
    return element("section", {class: "panel memory"},
        element("h3", {}, `Memory over ${of.timed ? "time" : "nodes"}`),
        element("p", {}, `at most ${withUnit(peak.bytes, "bytes")}, at `,
            itemButton(pane, peak.i), here && here !== peak
                ? `; ${withUnit(here.bytes, "bytes")} here` : "", "; weights are not counted"),
        curveOf(pane, of, peak),
        element("div", {class: "range"}, element("span", {}, "0"),
            element("span", {}, of.timed ? withUnit(of.end, "us") : `${of.end} nodes`)),
        element("p", {}, here && here !== peak ? "alive here:" : "alive at the peak:"),
        element("ul", {}, ...aliveAt(graph, (here || peak).i).map(([i, bytes]) =>
            element("li", {}, itemButton(pane, i), ` ${withUnit(bytes, "bytes")} `,
                element("code", {}, graph.shape(i))))));
}
