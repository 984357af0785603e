// Overlays: a column of values as colours on boxes, with a legend and a list of the largest.

import {brief} from "./data.js";
import {element} from "./dom.js";

// From little to much: even steps of lightness, told apart by colour-blind readers too.
const RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const KINDS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442",
    "#8c8c8c"];

function ramp(share) {
    const at = Math.min(Math.max(share, 0), 1) * (RAMP.length - 1);
    const k = Math.min(Math.floor(at), RAMP.length - 2), part = at - k;
    return RAMP[k].map((v, c) => Math.round(v + part * (RAMP[k + 1][c] - v)));
}

function inkOn([r, g, b]) {
    return 299 * r + 587 * g + 114 * b > 140000 ? "#111827" : "#f8fafc";
}

function hex([r, g, b]) {
    return "#" + [r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("");
}

// How the values of a column become colours: {colour, ink}, or null where there is no value.
export class Scale {
    constructor(fact, log) {
        this.fact = fact;
        if (fact.kind === "text") {
            this.names = [...new Set(fact.values.values())].filter((v) => v !== null).sort();
            return;
        }
        const all = [...fact.values.values()].filter((v) => typeof v === "number");
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

    colour(v) {
        if (v === null || v === undefined)
            return null;
        if (this.names) {
            const k = this.names.indexOf(v);
            return k < 0 ? null : {colour: KINDS[k % KINDS.length], ink: "#111827"};
        }
        const rgb = ramp(this.share(v));
        return {colour: hex(rgb), ink: inkOn(rgb)};
    }

    of(i) {
        return this.colour(this.fact.of(i));
    }
}

// The legend of a scale.
export function legend(scale) {
    if (scale.names)
        return element("div", {class: "legend"}, ...scale.names.map((name) =>
            element("span", {class: "chip"},
                element("i", {style: `background:${scale.colour(name).colour}`}), name)));
    const steps = Array.from({length: 9}, (_, k) => hex(ramp(k / 8)));
    return element("div", {class: "legend"},
        element("span", {}, brief(scale.log ? scale.positive : scale.low)),
        element("i", {class: "ramp", style: `background:linear-gradient(90deg,${steps})`}),
        element("span", {}, brief(scale.high)), scale.log ? element("em", {}, "log") : null);
}

// The list of the largest values; a click goes there.
export function topList(graph, scale, go) {
    const total = scale.fact.adds
        ? [...scale.fact.values.values()].reduce((a, b) => a + (b || 0), 0) : 0;
    return element("ol", {class: "top"}, ...scale.fact.top(20).map(([i, v]) =>
        element("li", {},
            element("button", {onclick: () => go(i), title: graph.anchor(i)},
                element("i", {style: `background:${scale.colour(v).colour}`}),
                element("b", {}, graph.name(i) || graph.label(i)),
                element("span", {}, brief(v) +
                    (total ? ` · ${(100 * v / total).toFixed(1)}%` : ""))))));
}
