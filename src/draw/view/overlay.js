// Overlays: a column of values as colours on boxes, with a legend and a list of the largest.

import {element} from "./dom.js";

// From little to much: even steps of lightness, told apart by colour-blind readers too.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const KINDS = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233],
    [213, 94, 0], [240, 228, 66], [140, 140, 140]];

function ramp(share) {
    const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const k = Math.min(Math.floor(at), RAMP.length - 2), part = at - k;
    return RAMP[k].map((v, c) => Math.round(v + part * (RAMP[k + 1][c] - v)));
}

// Black or white, whichever stands out more: at least 4.5 to 1 on any colour (WCAG 2).
function inkOn(rgb) {
    const [r, g, b] = rgb.map((v) =>
        (v <= 10 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}

function hex([r, g, b]) {
    return "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
}

// How the values of a column become colours. The scale goes over `values`, which are those that are
// seen, in all graphs: a closed module has the sum of its nodes, and would be off a scale of nodes
// alone.
export class Scale {
    constructor(fact, log, values) {
        this.fact = fact;
        if (fact.kind === "text") {
            this.names = [...new Set(values)].sort();
            return;
        }
        const all = values.filter((v) => typeof v === "number");
        this.low = all.reduce((a, b) => Math.min(a, b), Infinity);
        this.high = all.reduce((a, b) => Math.max(a, b), -Infinity);
        this.positive = all.filter((v) => v > 0).reduce((a, b) => Math.min(a, b), Infinity);
        this.log = log && this.high > 0;
    }

    share(v) {
        if (this.log) {
            const low = Math.log(this.positive), high = Math.log(this.high);
            return v > 0 && high > low ? (Math.log(v) - low) / (high - low) : v > 0 ? 1 : 0;
        }
        return this.high > this.low ? (v - this.low) / (this.high - this.low) : 0.5;
    }

    // What is looked for is bright, wherever on the scale it is.
    ramp(share) {
        return ramp(this.fact.fromLow ? 1 - share : share);
    }

    colour(v) {
        if (v === null || v === undefined)
            return null;
        if (this.names) {
            const k = this.names.indexOf(v);
            const kind = KINDS[k % KINDS.length];
            return k < 0 ? null : {colour: hex(kind), ink: inkOn(kind)};
        }
        const rgb = this.ramp(this.share(v));
        return {colour: hex(rgb), ink: inkOn(rgb)};
    }

    // {colour, ink, text} of an item, or null where it has no value. The text tells the value to
    // those who see no colours.
    of(i) {
        const v = this.fact.of(i), colour = this.colour(v);
        return colour && {...colour, text: this.fact.text(v)};
    }
}

// The legend of a scale.
export function legend(scale) {
    if (scale.names)
        return element("div", {class: "legend"}, ...scale.names.map((name) =>
            element("span", {class: "chip"},
                element("i", {style: `background:${scale.colour(name).colour}`}), name)));
    if (scale.low > scale.high)
        return element("div", {class: "legend"}, "no number is seen");
    const steps = Array.from({length: 9}, (_, k) => hex(scale.ramp(k / 8))), {fact} = scale;
    return element("div", {class: "legend"},
        element("span", {}, fact.text(scale.log ? scale.positive : scale.low)),
        element("i", {class: "ramp", style: `background:linear-gradient(90deg,${steps})`}),
        element("span", {}, fact.text(scale.high)), scale.log ? element("em", {}, "log") : null);
}

// The list of the worst values; a click goes there.
export function topList(graph, scale, go) {
    const total = scale.fact.adds
        ? [...scale.fact.values.values()].reduce((a, b) => a + (b || 0), 0) : 0;
    return element("ol", {class: "top"}, ...scale.fact.top(20).map(([i, v]) =>
        element("li", {},
            element("button", {onclick: () => go(i), title: graph.anchor(i)},
                element("i", {style: `background:${scale.colour(v).colour}`}),
                element("b", {}, graph.name(i) || graph.label(i)),
                element("span", {}, scale.fact.text(v) +
                    (total ? ` · ${(100 * v / total).toFixed(1)}%` : ""))))));
}
