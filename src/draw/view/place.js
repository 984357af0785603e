// Where everything stands. Which rank and which place in it an item has came with the page; here
// sizes become coordinates, for one frame at a time and from the innermost out, so that opening a
// module costs no more than the frames around it.
//
// x: each rank in turn moves to where its neighbours are, as near as there is room. y: everything
// moves up until it stands below what feeds it and below what was put above it, so that a tall
// frame pushes down only what is under it.

import {GRAPH, HOLDER, REPEAT} from "./data.js";

export const CHAR = 7, LINE = 15, PAD = 8;
const STUB_CHAR = 6, STUB_LINE = 14, STUB_LETTERS = 22, MAX_STUBS = 8;
const BETWEEN_BOXES = 24, BESIDE_WIRE = 12, BETWEEN_WIRES = 9, BETWEEN_RANKS = 24, MARGIN = 14;
const SWEEPS = 4, CELL = 4;

// ---- one frame's graph ------------------------------------------------------------------------

// Lists of arcs by point: those of point k are list[first[k]] up to list[first[k + 1]].
function byPoint(n, ends) {
    const first = new Int32Array(n + 2), list = new Int32Array(ends.length);
    for (const k of ends)
        first[k + 2]++;
    for (let k = 0; k < n; k++)
        first[k + 2] += first[k + 1];
    ends.forEach((k, a) => { list[first[k + 1]++] = a; });
    return {first, list};
}

// The layered graph of a frame as the page has it, made ready.
export function unpack(raw) {
    const [frame, counts, points, nets, arcs] = raw;
    const n = points.length, m = arcs.length / 3;
    const g = {
        frame, n, m, ranks: counts.length,
        first: new Int32Array(counts.length + 1), rank: new Int32Array(n),
        item: new Int32Array(n), net: new Int32Array(n).fill(-1),
        sources: Int32Array.from(nets, (k) => k + frame),
        from: new Int32Array(m), to: new Int32Array(m), arcNet: new Int32Array(m),
    };
    counts.forEach((c, r) => {
        g.first[r + 1] = g.first[r] + c;
        g.rank.fill(r, g.first[r], g.first[r + 1]);
    });
    points.forEach((p, k) => {
        g.item[k] = p >= 0 ? p + frame : -1;
        g.net[k] = p >= 0 ? -1 : -1 - p;
    });
    for (let a = 0; a < m; a++) {
        g.from[a] = arcs[3 * a];
        g.to[a] = arcs[3 * a + 1];
        g.arcNet[a] = arcs[3 * a + 2];
    }
    g.out = byPoint(n, g.from);
    g.in = byPoint(n, g.to);
    g.bends = nets.map(() => []);
    g.port = new Uint8Array(n);
    for (let k = 0; k < n; k++) {
        if (g.item[k] >= 0)
            continue;
        g.port[k] = g.in.first[k] === g.in.first[k + 1] || g.out.first[k] === g.out.first[k + 1];
        if (!g.port[k])
            g.bends[g.net[k]].push(k);
    }
    g.pointOf = new Map();
    g.item.forEach((i, k) => i >= 0 && g.pointOf.set(i, k));
    return g;
}

// ---- x ----------------------------------------------------------------------------------------

function distance(g, s, a, b) {
    const boxes = (g.item[a] >= 0) + (g.item[b] >= 0);
    return s.right[a] + s.left[b] + [BETWEEN_WIRES, BESIDE_WIRE, BETWEEN_BOXES][boxes];
}

// How much an arc wants to be straight: boxes in a row and bends of one wire most of all, and ports
// with the box they lead to.
function pull(g, a, b) {
    if (g.item[a] >= 0 && g.item[b] >= 0)
        return 8;
    const free = g.item[a] < 0 ? a : b, other = g.item[a] < 0 ? b : a;
    const port = g.port[free] || g.port[other];
    return (g.item[other] < 0) === !!port ? 1 : 8;
}

// Puts the points of a rank where neighbours want them: least squares under minimal distances.
function placeRank(g, s, rank, up, down) {
    const {blockSum, blockWeight, blockFirst, offset} = s;
    const begin = g.first[rank], end = g.first[rank + 1];
    let blocks = 0, off = 0;
    for (let k = begin; k < end; k++) {
        if (k > begin)
            off += distance(g, s, k - 1, k);
        let sum = 0, weight = 0;
        if (up)
            for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++) {
                const a = g.in.list[j], o = g.from[a], w = pull(g, k, o);
                sum += w * (s.x[o] + s.exit[a] - s.entry[a]);
                weight += w;
            }
        if (down)
            for (let j = g.out.first[k]; j < g.out.first[k + 1]; j++) {
                const a = g.out.list[j], o = g.to[a], w = pull(g, k, o);
                sum += w * (s.x[o] + s.entry[a] - s.exit[a]);
                weight += w;
            }
        const x = weight > 0 ? sum / weight : s.x[k];
        const heavy = weight > 0 ? (g.item[k] < 0 ? 1 : 8) : 0.01;
        offset[k] = off;
        blockSum[blocks] = (x - off) * heavy;
        blockWeight[blocks] = heavy;
        blockFirst[blocks++] = k;
        while (blocks > 1 && blockSum[blocks - 2] * blockWeight[blocks - 1] >
               blockSum[blocks - 1] * blockWeight[blocks - 2]) {
            blockSum[blocks - 2] += blockSum[blocks - 1];
            blockWeight[blocks - 2] += blockWeight[blocks - 1];
            blocks--;
        }
    }
    for (let b = 0; b < blocks; b++) {
        const last = b + 1 < blocks ? blockFirst[b + 1] : end, x = blockSum[b] / blockWeight[b];
        for (let k = blockFirst[b]; k < last; k++)
            s.x[k] = x + offset[k];
    }
}

// Lines up the bends of a net: runs of ranks in which one x is free to all of them.
function straighten(g, s, bends) {
    for (let i = 0; i < bends.length;) {
        let lo = -Infinity, hi = Infinity, sum = 0, k = i;
        for (; k < bends.length; k++) {
            const p = bends[k], r = g.rank[p];
            const l = p > g.first[r] ? s.x[p - 1] + distance(g, s, p - 1, p) : -Infinity;
            const h = p + 1 < g.first[r + 1] ? s.x[p + 1] - distance(g, s, p, p + 1) : Infinity;
            if (Math.max(l, lo) > Math.min(h, hi))
                break;
            lo = Math.max(l, lo);
            hi = Math.min(h, hi);
            sum += s.x[p];
        }
        if (k === i) {
            i++;
            continue;
        }
        const x = Math.min(Math.max(sum / (k - i), lo), hi);
        for (; i < k; i++)
            s.x[bends[i]] = x;
    }
}

function placeX(g, s) {
    for (let r = 0; r < g.ranks; r++)
        for (let k = g.first[r], x = 0; k < g.first[r + 1]; k++) {
            x += k > g.first[r] ? distance(g, s, k - 1, k) : 0;
            s.x[k] = x;
        }
    for (let sweep = 0; sweep < SWEEPS; sweep++) {
        const last = sweep === SWEEPS - 1;
        for (let r = 0; r < g.ranks; r++)
            placeRank(g, s, r, true, last);
        for (let r = g.ranks - 1; r >= 0; r--)
            placeRank(g, s, r, last, true);
    }
    for (let r = 0; r < g.ranks; r++)
        placeRank(g, s, r, true, true);
    for (const bends of g.bends)
        straighten(g, s, bends);
}

// ---- y ----------------------------------------------------------------------------------------

// The lowest thing so far, by x in cells.
class Skyline {
    constructor(width, y) {
        this.low = new Float64Array(Math.ceil(width / CELL) + 2).fill(y);
    }

    under(x0, x1) {
        let y = 0;
        for (let c = Math.floor(x0 / CELL), end = Math.floor(x1 / CELL); c <= end; c++)
            y = Math.max(y, this.low[c]);
        return y;
    }

    raise(x0, x1, y) {
        for (let c = Math.floor(x0 / CELL), end = Math.floor(x1 / CELL); c <= end; c++)
            if (this.low[c] < y)
                this.low[c] = y;
    }
}

// Where the arcs into a rank turn: below all that is above their way.
function turnArcs(g, s, sky, rank) {
    for (let k = g.first[rank]; k < g.first[rank + 1]; k++)
        for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++) {
            const a = g.in.list[j], from = g.from[a];
            const x0 = s.x[from] + s.exit[a], x1 = s.x[k] + s.entry[a], far = Math.abs(x1 - x0);
            const base = Math.max(s.bottom[from], sky.under(Math.min(x0, x1), Math.max(x0, x1)));
            const room = far < 1 && g.item[k] < 0 ? 8 : BETWEEN_RANKS + Math.min(44, far / 9);
            s.turn0[a] = base;
            s.turn1[a] = base + room;
        }
}

// A point of the rank that an arc runs over stands below it.
function clearArcs(g, s, rank) {
    const begin = g.first[rank], end = g.first[rank + 1];
    for (let k = begin; k < end; k++)
        for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++) {
            const a = g.in.list[j], x0 = s.x[g.from[a]] + s.exit[a], y = s.turn1[a];
            const step = x0 < s.x[k] ? -1 : 1;
            for (let o = k; o >= begin && o < end; o += step) {
                if (step < 0 ? s.x[o] + s.right[o] + 4 < x0 : s.x[o] - s.left[o] - 4 > x0)
                    break;
                s.top[o] = Math.max(s.top[o], y);
            }
        }
}

function placeRankY(g, s, sky, rank) {
    const begin = g.first[rank], end = g.first[rank + 1];
    turnArcs(g, s, sky, rank);
    let fed = Infinity;
    for (let k = begin; k < end; k++) {
        const gap = g.item[k] >= 0 ? BETWEEN_RANKS : 0;
        s.top[k] = sky.under(s.x[k] - s.left[k], s.x[k] + s.right[k]) + gap;
        for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++)
            s.top[k] = Math.max(s.top[k], s.turn1[g.in.list[j]]);
        if (g.in.first[k] < g.in.first[k + 1])
            fed = Math.min(fed, s.top[k]);
    }
    for (let k = begin; k < end; k++) // what nothing feeds is not to float away from its users
        if (g.in.first[k] === g.in.first[k + 1] && fed < Infinity)
            s.top[k] = Math.max(s.top[k], fed);
    clearArcs(g, s, rank);
    for (let k = begin; k < end; k++) {
        s.bottom[k] = s.top[k] + s.high[k];
        sky.raise(s.x[k] - s.left[k], s.x[k] + s.right[k], s.bottom[k]);
        for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++) {
            const a = g.in.list[j], x0 = s.x[g.from[a]] + s.exit[a], x1 = s.x[k] + s.entry[a];
            sky.raise(Math.min(x0, x1), Math.max(x0, x1), s.turn1[a]);
        }
    }
}

// Returns the height of the frame.
function placeY(g, s, header, width) {
    const sky = new Skyline(width, header - 8);
    const isIn = (r) => r === 0 && g.first[1] > 0 && g.port[0];
    const last = g.ranks - 1, lastPort = g.n > 0 && last > 0 && g.port[g.n - 1];
    for (let r = 0; r < g.ranks; r++) {
        if (isIn(r)) {
            s.top.fill(0, 0, g.first[1]);
            s.bottom.fill(header - 8, 0, g.first[1]);
        } else if (r < last || !lastPort) {
            placeRankY(g, s, sky, r);
        }
    }
    let height = header;
    for (let k = 0; k < g.n; k++)
        if (!(lastPort && g.rank[k] === last))
            height = Math.max(height, s.bottom[k]);
    if (!lastPort)
        return height + MARGIN;
    turnArcs(g, s, sky, last);
    for (let j = g.in.first[g.first[last]]; j < g.in.first[g.n]; j++)
        height = Math.max(height, s.turn1[g.in.list[j]]);
    for (let k = g.first[last]; k < g.n; k++)
        s.top[k] = s.bottom[k] = height;
    return height;
}

// ---- frames -----------------------------------------------------------------------------------

// Wires come into a box from straight above where they can, and not too close to each other.
function spreadEntries(g, s, k) {
    const arcs = [];
    for (let j = g.in.first[k]; j < g.in.first[k + 1]; j++)
        arcs.push(g.in.list[j]);
    if (g.item[k] < 0 || !arcs.length || s.ports[k])
        return;
    const half = s.wide[k] / 2 - 6, step = Math.min(10, 2 * half / arcs.length);
    const at = (a) => s.x[g.from[a]] + s.exit[a];
    arcs.sort((a, b) => at(a) - at(b) || a - b);
    arcs.forEach((a, i) => {
        let lo = -half + i * step;
        const hi = half - (arcs.length - 1 - i) * step;
        if (i)
            lo = Math.max(lo, s.entry[arcs[i - 1]] + step);
        s.entry[a] = Math.round(Math.min(Math.max(at(a) - s.x[k], lo), Math.max(lo, hi)));
    });
}

// The title of a frame stands where no wire comes in: left of the first, right of the last, or the
// frame gets wider. Returns [x of the title, how much further right everything stands].
function titleRoom(ports, width, title) {
    if (!title || !ports.length)
        return [PAD, 0];
    const first = ports[0], last = ports[ports.length - 1];
    if (first > title + 2 * PAD)
        return [PAD, 0];
    if (width - last > title + 2 * PAD)
        return [last + PAD, 0];
    return [PAD, title + 2 * PAD - first];
}

function scratch(g) {
    const floats = () => new Float64Array(g.n + 1), arcs = () => new Float64Array(g.m + 1);
    return {
        x: floats(), left: floats(), right: floats(), wide: floats(), high: floats(),
        top: floats(), bottom: floats(), offset: floats(),
        blockSum: floats(), blockWeight: floats(), blockFirst: new Int32Array(g.n + 1),
        exit: arcs(), entry: arcs(), turn0: arcs(), turn1: arcs(), ports: new Uint8Array(g.n + 1),
    };
}

// Lays out a frame whose open children are laid out. What comes back is in the frame's own
// coordinates: children as points, wires as arcs with turns, ports by the item whose value passes.
export function placeFrame(g, size, inner, title) {
    const s = scratch(g);
    for (let k = 0; k < g.n; k++) {
        if (g.item[k] < 0) {
            s.left[k] = s.right[k] = 3;
            continue;
        }
        const box = size(g.item[k]);
        s.wide[k] = box.w;
        s.high[k] = box.h;
        s.left[k] = box.w / 2 + box.left;
        s.right[k] = box.w / 2 + box.right;
    }
    for (let a = 0; a < g.m; a++) {
        const source = g.sources[g.arcNet[a]];
        const from = g.item[g.from[a]] >= 0 ? inner(g.item[g.from[a]]) : null;
        const to = g.item[g.to[a]] >= 0 ? inner(g.item[g.to[a]]) : null;
        const exit = from && from.outPorts.get(source), entry = to && to.inPorts.get(source);
        s.exit[a] = exit === undefined || !from ? 0 : exit - from.w / 2;
        s.entry[a] = entry === undefined || !to ? 0 : entry - to.w / 2;
        if (entry !== undefined && to)
            s.ports[g.to[a]] = 1;
    }
    placeX(g, s);
    let lo = Infinity, hi = -Infinity;
    for (let k = 0; k < g.n; k++) {
        lo = Math.min(lo, s.x[k] - s.left[k]);
        hi = Math.max(hi, s.x[k] + s.right[k]);
    }
    let width = Math.max(hi - lo + 2 * MARGIN, title.w + 2 * PAD);
    const ports = [];
    const shift = (width - (hi - lo)) / 2 - lo;
    for (let k = 0; k < g.n; k++) {
        s.x[k] = Math.round(s.x[k] + shift);
        if (g.port[k] && g.rank[k] === 0)
            ports.push(s.x[k]);
    }
    const [titleX, more] = titleRoom(ports.sort((a, b) => a - b), width, title.w);
    for (let k = 0; k < g.n && more; k++)
        s.x[k] += more;
    width = Math.ceil(width + more);
    for (let k = 0; k < g.n; k++)
        spreadEntries(g, s, k);
    const height = Math.ceil(placeY(g, s, title.h, width));
    const inPorts = new Map(), outPorts = new Map();
    for (let k = 0; k < g.n; k++)
        if (g.port[k])
            (g.rank[k] === 0 && g.in.first[k] === g.in.first[k + 1] ? inPorts : outPorts)
                .set(g.sources[g.net[k]], s.x[k]);
    return {graph: g, s, w: width, h: height, inPorts, outPorts, titleX};
}

// ---- the whole --------------------------------------------------------------------------------

function letters(text) {
    let n = 0;
    for (const c of text)
        n += c.codePointAt(0) >= 0x1100 ? 2 : 1;
    return n;
}

// Which frames are open, and where everything is with these open.
export class Layout {
    constructor(graph) {
        this.graph = graph;
        this.open = new Set([0]);
        this.unpacked = new Map();
        this.placed = new Map(); // by frame, while nothing in it changes
        this.boxes = new Map();  // sizes of closed items
        this.names = new Map();  // what stubs say
    }

    isOpen(i) {
        return this.open.has(i);
    }

    // The item that is seen in the place of i: itself, or the outermost closed frame around it.
    seen(i) {
        let at = i;
        for (let k = this.graph.parent[i]; k >= 0; k = this.graph.parent[k])
            if (!this.open.has(k))
                at = k;
        return at;
    }

    // Stubs of an item: values that come from outside of it and are not drawn as wires.
    stubs(i) {
        const g = this.graph;
        if (!g.isFrame(i))
            return g.stubs[i];
        const list = new Set();
        for (let k = i; k < g.end[i]; k++)
            for (const from of g.stubs[k])
                if (!g.contains(i, from))
                    list.add(from);
        return [...list];
    }

    stubNames(i) {
        if (!this.names.has(i)) {
            const all = this.stubs(i), names = all.slice(0, MAX_STUBS).map((k) => {
                const name = this.graph.name(k) || this.graph.label(k);
                return name.length > STUB_LETTERS ? "…" + name.slice(1 - STUB_LETTERS) : name;
            });
            if (all.length > MAX_STUBS)
                names.push(`+${all.length - MAX_STUBS} more`);
            this.names.set(i, names);
        }
        return this.names.get(i);
    }

    // The size of a box, closed frames among them.
    box(i) {
        let box = this.boxes.get(i);
        if (!box) {
            const lines = this.graph.lines(i, false);
            let w = 4, label = 0;
            for (const [, text] of lines)
                w = Math.max(w, letters(text));
            const stubs = this.stubNames(i);
            for (const text of stubs)
                label = Math.max(label, letters(text));
            box = {
                w: w * CHAR + 2 * PAD,
                h: Math.max(lines.length * LINE + 10, stubs.length * LINE + 6),
                left: stubs.length ? label * STUB_CHAR + STUB_LINE + 4 : 0, right: 0,
            };
            this.boxes.set(i, box);
        }
        return box;
    }

    titleOf(i) {
        if (i === 0)
            return {w: 0, h: 0};
        const lines = this.graph.lines(i, true);
        let w = 0;
        for (const [, text] of lines)
            w = Math.max(w, letters(text));
        return {w: w * CHAR, h: lines.length * LINE + 10};
    }

    place(i) {
        const done = this.placed.get(i);
        if (done)
            return done;
        for (const k of this.graph.children[i] || [])
            if (this.open.has(k))
                this.place(k);
        if (!this.unpacked.has(i))
            this.unpacked.set(i, unpack(this.graph.frames.get(i)));
        const inner = (k) => (this.open.has(k) ? this.placed.get(k) : null);
        const size = (k) => {
            const p = inner(k);
            return p ? {w: p.w, h: p.h, left: 0, right: 0} : this.box(k);
        };
        const made = placeFrame(this.unpacked.get(i), size, inner, this.titleOf(i));
        this.placed.set(i, made);
        return made;
    }

    // The items that are seen as boxes.
    boxesSeen() {
        return [...this.rects.keys()].filter((i) => i && !this.open.has(i));
    }

    // Opens or closes frames; layouts around them are forgotten.
    set(items, open) {
        for (const i of items) {
            if (open) {
                this.open.add(i);
                for (const k of this.graph.children[i] || []) // branches open with their node
                    if (this.graph.kind[k] === GRAPH)
                        this.open.add(k);
            } else if (i)
                this.open.delete(i);
            for (let k = i; k >= 0; k = this.graph.parent[k])
                this.placed.delete(k);
        }
        this.at = null;
    }

    // Where everything that is seen stands on the page: item to {x, y, w, h}.
    get rects() {
        if (!this.at) {
            this.at = new Map();
            const root = this.place(0);
            this.at.set(0, {x: 0, y: 0, w: root.w, h: root.h});
            this.spread(0, 0, 0);
        }
        return this.at;
    }

    spread(frame, x, y) {
        const {graph: g, s} = this.placed.get(frame);
        for (let k = 0; k < g.n; k++) {
            const i = g.item[k];
            if (i < 0)
                continue;
            const r = {x: x + s.x[k] - s.wide[k] / 2, y: y + s.top[k], w: s.wide[k], h: s.high[k]};
            this.at.set(i, r);
            if (this.open.has(i))
                this.spread(i, r.x, r.y);
        }
    }

    // The frames in a frame that are worth opening at first: not a small layer beside blocks that
    // repeat and stay closed.
    toOpen(frame, all) {
        const g = this.graph, inner = g.children[frame] || [];
        const blocks = !all && inner.some((k) => g.kind[k] === REPEAT);
        const plain = (k) => g.kind[k] !== GRAPH && g.kind[k] !== HOLDER &&
            !(g.children[k] || []).some((j) => g.isFrame(j));
        return inner.filter((k) => g.isFrame(k) && !g.aside.has(k) &&
            (all || g.kind[k] !== REPEAT) && !(blocks && plain(k)));
    }

    // As deep as about `most` boxes allow; `depth` says how deep where it is not 0. Blocks that
    // repeat and what is beside the spine stay closed.
    openSome(most, depth) {
        const g = this.graph;
        this.set([...this.open], false);
        let front = [0], seen = (g.children[0] || []).length;
        for (let d = 1; front.length && (!depth || d < depth); d++) {
            const next = front.flatMap((i) => this.toOpen(i, depth));
            const always = next.filter((i) => g.kind[i] === GRAPH || g.kind[i] === HOLDER);
            const more = next.reduce((n, i) => n + (g.children[i] || []).length - 1, 0);
            const opened = depth || seen + more <= most ? next : always;
            seen += more;
            this.set(opened, true);
            front = opened;
        }
    }
}
