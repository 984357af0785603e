// A program as the page holds it. Items are boxes and frames in the order of execution, a frame
// before what is in it; facts of items stand in arrays with an entry for each.

export const BOX = 0, MODULE = 1, HOLDER = 2, GRAPH = 3, REPEAT = 4, SECTION = 5, ASIDE = 6;
const MOST_KINDS = 24; // texts of a column that colours boxes
export const NAME = 0, OP = 1, SHAPE = 5; // styles of lines

export class Graph {
    constructor(raw) {
        const n = raw.kind.length;
        this.raw = raw;
        this.count = n;
        this.title = raw.title;
        this.text = raw.text;
        this.kind = Uint8Array.from(raw.kind);
        this.family = Uint8Array.from(raw.family);
        this.tensors = raw.tensors;
        this.parent = new Int32Array(n);
        this.end = new Int32Array(n);
        this.depth = new Int32Array(n);
        this.children = Array.from({length: n}, () => null);
        for (let i = 0; i < n; i++) {
            const parent = i ? i - raw.parent[i] : -1;
            this.parent[i] = parent;
            this.end[i] = i + raw.size[i];
            if (i) {
                (this.children[parent] ||= []).push(i);
                this.depth[i] = this.depth[parent] + 1;
            }
        }
        this.aside = new Set(raw.aside); // frames of what is no part of the model's spine
        this.frames = new Map(raw.frames.map((f) => [f[0], f]));
        this.linkWires();
        this.facts = raw.facts.map(([name, pairs]) => new Fact(this, name, pairs));
        this.until = new Map(); // a node whose result takes memory: the last that needs it
        for (let k = 0; k < raw.until.length; k += 2)
            this.until.set(raw.until[k], raw.until[k + 1]);
    }

    // Who feeds whom, cut wires included; `cut` are those drawn as stubs.
    linkWires() {
        this.inputs = [];
        this.stubs = [];
        this.users = Array.from({length: this.count}, () => []);
        this.raw.inputs.forEach((list, i) => {
            this.inputs.push(list.map((back) => i - Math.abs(back)));
            this.stubs.push(list.filter((back) => back < 0).map((back) => i + back));
            for (const from of this.inputs[i])
                this.users[from].push(i);
        });
    }

    isNode(i) {
        return this.kind[i] === BOX || this.kind[i] === HOLDER;
    }

    // How many nodes are drawn in an item; weights are lines of those that use them.
    countNodes(i) {
        let count = 0;
        for (let k = i; k < this.end[i]; k++)
            count += this.isNode(k);
        return count;
    }

    // An input or the output: a node, and no operator.
    isEnd(i) {
        return this.family[i] < 2;
    }

    isFrame(i) {
        return this.kind[i] !== BOX;
    }

    name(i) {
        return this.text[this.raw.name[i]];
    }

    op(i) {
        return this.text[this.raw.op[i]];
    }

    path(i) {
        return this.text[this.raw.path[i]];
    }

    type(i) {
        return this.text[this.raw.type[i]];
    }

    target(i) {
        return this.text[this.raw.target[i]];
    }

    shape(i) {
        return this.text[this.raw.shape[i]];
    }

    source(i) {
        return this.text[this.raw.source[i]];
    }

    call(i) {
        return this.raw.call[i];
    }

    fact(name) {
        return this.facts.find((f) => f.name === name) || null;
    }

    // Names and texts of arguments.
    args(i) {
        const list = this.raw.args[i] || [];
        const rows = [];
        for (let k = 0; k < list.length; k += 2)
            rows.push([this.text[list[k]], this.text[list[k + 1]]]);
        return rows;
    }

    weights(i) {
        return (this.raw.weights[i] || []).map((k) => this.tensors[k]);
    }

    // The lines of an item's label: [style, text].
    lines(i, open) {
        const list = !open && this.raw.closed[i] ? this.raw.closed[i] : this.raw.lines[i];
        return list.map((k) => [k & 7, this.text[k >> 3]]);
    }

    // What an item is called in lists and sentences.
    label(i) {
        if (i === 0)
            return this.title;
        const lines = this.lines(i, false);
        return lines.length ? lines[0][1] : this.path(i) || this.title;
    }

    // The sub-graph that an item is in: its prefix in names that are unique.
    prefix(i) {
        for (let k = i; k >= 0; k = this.parent[k])
            if (this.kind[k] === GRAPH)
                return this.name(k);
        return "";
    }

    // A text that names an item in links and columns, and back.
    anchor(i) {
        switch (this.kind[i]) {
        case BOX:
        case HOLDER:
            return this.prefix(i) + this.name(i);
        case MODULE:
            return "module:" + this.prefix(i) + this.path(i) +
                (this.call(i) > 1 ? "@" + this.call(i) : "");
        case REPEAT:
            return "modules:" + this.prefix(i) + this.path(i);
        case ASIDE:
            return "beside:" + this.prefix(i) + this.path(i);
        case SECTION:
            return "from:" + this.prefix(i) + this.path(i);
        default:
            return i ? "graph:" + this.name(i) : "";
        }
    }

    find(anchor) {
        if (!this.anchors) {
            this.anchors = new Map();
            for (let i = this.count - 1; i > 0; i--)
                this.anchors.set(this.anchor(i), i);
        }
        return this.anchors.get(anchor) ?? -1;
    }

    // The module of a node: [path, type], of the box itself or of the frame around it.
    module(i) {
        for (let k = i; k >= 0; k = this.parent[k])
            if (this.path(k) && this.kind[k] < GRAPH)
                return [this.path(k), this.type(k)];
        return ["", ""];
    }

    contains(frame, i) {
        return frame <= i && i < this.end[frame];
    }

    // Items above i, the root first.
    above(i) {
        const list = [];
        for (let k = this.parent[i]; k >= 0; k = this.parent[k])
            list.unshift(k);
        return list;
    }

    // The next or previous item that is a node.
    neighbour(i, step) {
        for (let k = i + step; k > 0 && k < this.count; k += step)
            if (this.isNode(k))
                return k;
        return -1;
    }
}

// A column of values over items: numbers, texts, or lists of numbers (histograms).
export class Fact {
    constructor(graph, name, pairs) {
        this.name = name;
        this.values = new Map();
        for (let k = 0; k < pairs.length; k += 2)
            this.values.set(pairs[k], pairs[k + 1]);
        const some = [...this.values.values()].find((v) => v !== null);
        this.kind = Array.isArray(some) ? "list" : typeof some === "string" ? "text" : "number";
        this.graph = graph;
    }

    // The value of an item: of a frame the sum over what is in it, how much of the machine's limit
    // it reaches over its time, or the worst of what cannot be added up (errors, decibels).
    of(i) {
        const own = this.values.get(i);
        if (own !== undefined || !this.graph.isFrame(i) || this.kind !== "number")
            return own ?? null;
        this.frames ||= new Map();
        if (!this.frames.has(i))
            this.frames.set(i, this.ofFrame(i));
        return this.frames.get(i);
    }

    ofFrame(i) {
        const time = this.name === "of limit (share)" ? this.graph.fact("time (us)") : null;
        let sum = null;
        for (let k = i + 1; k < this.graph.end[i]; k++) {
            let v = this.values.get(k);
            if (typeof v !== "number")
                continue;
            v *= time ? time.values.get(k) / time.of(i) : 1;
            sum = sum === null ? v : this.adds || time ? sum + v
                : this.fromLow ? Math.min(sum, v) : Math.max(sum, v);
        }
        return sum;
    }

    // Whether boxes can be coloured by it: numbers, or texts of which there are few.
    get isOverlay() {
        return this.kind === "number" ? this.values.size > 0
            : this.kind === "text" && new Set(this.values.values()).size <= MOST_KINDS;
    }

    // Times, bytes and operations add up; the name tells by its unit.
    get adds() {
        return /^(FLOPs|.*\((us|ms|s|ns|FLOP)\)|(?!alive).*\(bytes\))$/.test(this.name);
    }

    // Of decibels of signal and of shares of a limit the smallest are what one looks for.
    get fromLow() {
        return this.unit === "dB" || this.name === "of limit (share)";
    }

    // "us" of "time (us)".
    get unit() {
        const m = /\(([^()]*)\)$/.exec(this.name);
        return m ? m[1] : this.name === "FLOPs" ? "FLOP" : "";
    }

    get title() {
        return this.name.replace(/ \([^()]*\)$/, "");
    }

    text(v) {
        return typeof v === "number" ? withUnit(v, this.unit) : brief(v);
    }

    // The values of nodes that one looks for, the worst first.
    top(n) {
        const list = [...this.values].filter(([, v]) => typeof v === "number");
        const sign = this.fromLow ? -1 : 1;
        return list.sort((a, b) => sign * (b[1] - a[1]) || a[0] - b[0]).slice(0, n);
    }
}

const SECONDS = {s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9};

// 446000 of "us" as "446 ms", 32200 of "bytes" as "32.2 kB".
export function withUnit(x, unit) {
    if (SECONDS[unit]) {
        const all = x * SECONDS[unit], size = Math.abs(all);
        const [name, one] = Object.entries({s: 1, ms: 1e-3, "µs": 1e-6})
            .find(([, one]) => size >= one * 0.9995) || ["ns", 1e-9];
        const shown = all / one;
        return `${Math.abs(shown) >= 1000 ? Math.round(shown) : shown.toPrecision(3)} ${name}`;
    }
    if (unit === "dB")
        return `${x.toFixed(1)} dB`;
    if (unit === "share")
        return x ? `${(100 * x).toPrecision(3)}%` : "0%";
    const text = brief(x), sign = unit === "bytes" ? "B" : unit;
    return !sign ? text : / .$/.test(text) ? text + sign : `${text} ${sign}`;
}

// 12345678 as "12.3 M".
export function brief(x) {
    if (typeof x !== "number")
        return x === null || x === undefined ? "" : String(x);
    const size = Math.abs(x);
    for (const [one, sign] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]])
        if (size >= 10 * one || (one > 1e3 && size >= one))
            return (x / one).toPrecision(3) + sign;
    return Number.isInteger(x) ? String(x) : x.toPrecision(4);
}
