// A roofline: kernels, or the boxes that are seen, by how much they compute for each byte that they
// move and how fast they do it, under the two limits of the machine. A profile has what it needs.

import {brief, withUnit} from "./data.js";
import {element, shape} from "./dom.js";
import {itemButton} from "./card.js";

const ROOF = {wide: 300, high: 200, left: 44, right: 292, top: 10, bottom: 166, strip: 18,
    most: 300, listed: 5};

// The columns of `cfx run --profile`; "alone" is what the machine needs for that at its best.
function roofColumns(graph) {
    const columns = {time: "time (us)", flops: "computed (FLOP)", bytes: "moved (bytes)",
        arithmetic: "arithmetic alone (us)", memory: "memory alone (us)"};
    for (const key of Object.keys(columns))
        if (!(columns[key] = graph.fact(columns[key])))
            return null;
    return {...columns, bound: graph.fact("bound by")};
}

function roofPoint(columns, i) {
    const p = {i};
    for (const key of ["time", "flops", "bytes", "arithmetic", "memory"])
        p[key] = columns[key].of(i) || 0;
    const said = columns.bound && columns.bound.of(i); // of kernels; a module is what most of it is
    p.bound = said || (p.memory > p.arithmetic ? "memory" : "arithmetic");
    p.limit = Math.min(p.time, p[p.bound]);
    return p;
}

// The points of a frame: its kernels, or the boxes in it that are seen; the slowest.
function roofPoints(pane, columns, frame, seen) {
    const items = seen ? pane.layout.boxesSeen() : [...columns.time.values.keys()];
    return items.filter((i) => i !== frame && pane.graph.contains(frame, i))
        .map((i) => roofPoint(columns, i)).filter((p) => p.time > 0 && (p.flops || p.bytes))
        .sort((a, b) => b.time - a.time).slice(0, ROOF.most);
}

// FLOP and bytes a second that the machine reaches, told by any sum and the time it takes alone;
// 0 where nothing is computed.
function machineLimits(points) {
    const sum = (key) => points.reduce((a, p) => a + p[key], 0);
    const rate = (work, alone) => (sum(alone) > 0 ? sum(work) / sum(alone) * 1e6 : 0);
    return {flops: rate("flops", "arithmetic"), bytes: rate("bytes", "memory")};
}

// A logarithmic axis from the decade below the least value to the one above the most.
function axisOf(values, from, to) {
    const low = Math.floor(Math.log10(Math.min(...values)));
    const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values))));
    const at = (v) => from + (to - from) * (Math.log10(v) - low) / (high - low);
    const step = Math.ceil((high - low) / 5), ticks = [];
    for (let k = low; k <= high; k += step)
        ticks.push([10 ** k, at(10 ** k)]);
    return {at, ticks, low: 10 ** low, high: 10 ** high};
}

function tickText(v) {
    return v >= 1e-3 && v < 1e3 ? String(Number(v.toPrecision(1))) : brief(v).replace(/\.0+ /, " ");
}

// Squares are bound by memory, circles by arithmetic, so that colours are not needed.
function markOf(pane, p, x, y, total) {
    const r = 2.5 + 9 * Math.sqrt(p.time / total), {graph, viewer} = pane;
    const name = graph.name(p.i) || graph.label(p.i);
    const says = `${name}: ${withUnit(p.time, "us")}, ` +
        (p.flops ? `${withUnit(p.flops / p.time * 1e6, "FLOP/s")}, ` : "") +
        `${withUnit(p.bytes / p.time * 1e6, "bytes")}/s, ` +
        `${withUnit(p.limit / p.time, "share")} of the limit, bound by ${p.bound}`;
    const go = () => viewer.go(pane, p.i);
    const attributes = {
        class: `${p.bound}${p.i === pane.picked ? " picked" : ""}`, role: "button", tabindex: 0,
        "aria-label": says, onclick: go,
        onkeydown: (e) => {
            if (e.key !== "Enter" && e.key !== " ")
                return;
            e.preventDefault();
            e.stopPropagation();
            go();
        },
    };
    const title = shape("title", {}, says);
    return p.bound === "memory"
        ? shape("rect", {...attributes, x: x - r, y: y - r, width: 2 * r, height: 2 * r}, title)
        : shape("circle", {...attributes, cx: x, cy: y, r}, title);
}

function roofChart(pane, points, machine) {
    const {wide, high, left, right, top, bottom, strip} = ROOF;
    const counted = points.filter((p) => p.flops && p.bytes), ridge = machine.flops / machine.bytes;
    const x = axisOf([...counted.map((p) => p.flops / p.bytes), ridge], left + strip, right);
    // What computes nothing that is counted stands in a strip on the left, as far under the roof
    // there as its bytes a second are below the machine's.
    const least = x.low;
    const speed = (p) => (p.flops || least * p.bytes) / p.time * 1e6;
    const place = (p) => (p.flops && p.bytes ? x.at(p.flops / p.bytes) : left + strip / 2);
    const y = axisOf([...points.map(speed), machine.flops, least * machine.bytes], bottom, top);
    const total = points.reduce((a, p) => a + p.time, 0);
    const label = (text, at, anchor) => shape("text", {...at, "text-anchor": anchor}, text);
    const roof = `M${left + 2} ${y.at(least * machine.bytes)}H${x.at(least)}` +
        `L${x.at(ridge)} ${y.at(machine.flops)}H${right}`;
    return shape("svg", {
        viewBox: `0 0 ${wide} ${high}`, class: "chart roofline", role: "group",
        "aria-label": `${points.length} points by FLOP per byte and FLOP per second`,
    }, ...x.ticks.map(([v, at]) => label(tickText(v), {x: at, y: bottom + 13},
        at < right - 9 ? "middle" : "end")),
    ...y.ticks.map(([v, at]) => label(tickText(v), {x: left - 5, y: at + 3}, "end")),
    ...y.ticks.map(([, at]) => shape("path", {class: "grid", d: `M${left} ${at}H${right}`})),
    label("FLOP per byte", {x: (left + wide) / 2, y: high - 5}, "middle"),
    label("FLOP/s", {x: 2, y: bottom + 13}, "start"),
    shape("path", {class: "axis", d: `M${left} ${top}V${bottom}H${right}`}),
    shape("path", {class: "roof", d: roof}),
    ...points.map((p) => markOf(pane, p, place(p), y.at(speed(p)), total)));
}

function roofSays(points, machine, seen) {
    const total = points.reduce((a, p) => a + p.time, 0);
    const part = (bound) => points.filter((p) => p.bound === bound)
        .reduce((a, p) => a + p.time, 0) / total;
    return `${points.length} ${seen ? "boxes" : "kernels"} in ${withUnit(total, "us")}: ` +
        `${Math.round(100 * part("memory"))}% of the time bound by memory (squares), ` +
        `${Math.round(100 * part("arithmetic"))}% by arithmetic (circles). The machine reaches ` +
        `${withUnit(machine.flops, "FLOP/s")} and ${withUnit(machine.bytes, "bytes")}/s.`;
}

// The panel of the frame that is picked, or of the whole graph; null without a profile.
export function rooflinePanel(pane) {
    const {graph, picked} = pane, columns = roofColumns(graph), seen = pane.viewer.roofOfSeen;
    const frame = picked > 0 && !graph.isNode(picked) ? picked : 0;
    const all = columns ? roofPoints(pane, columns, 0, false) : [], machine = machineLimits(all);
    const points = columns ? roofPoints(pane, columns, frame, seen) : [];
    if (!points.length || !machine.flops || !machine.bytes)
        return null;
    const button = (text, of) => element("button", {
        "aria-pressed": String(seen === of), onclick: () => pane.viewer.setRoof(of)}, text);
    const gain = [...points].sort((a, b) => (b.time - b.limit) - (a.time - a.limit));
    return element("section", {class: "panel"}, element("h3", {}, "Roofline"),
        element("p", {}, button("kernels", false), " ", button("what is seen", true)),
        roofChart(pane, points, machine), element("p", {}, roofSays(points, machine, seen)),
        element("p", {}, "furthest above what the machine needs:"),
        element("ul", {}, ...gain.slice(0, ROOF.listed).map((p) => element("li", {},
            itemButton(pane, p.i), ` ${withUnit(p.time - p.limit, "us")} of ` +
                `${withUnit(p.time, "us")}`))));
}
