// What is seen becomes strokes of a pen: of the canvas, or of an SVG. Both get the same picture;
// the canvas leaves out what is too small to be told apart.

import {HOLDER, REPEAT} from "./data.js";
import {CHAR, LINE, PAD} from "./place.js";

export const FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";

export const themes = {
    light: {
        page: "#ffffff", ink: "#1e293b", wire: "#64748b", soft: "#64748b", stub: "#2563eb",
        frame: "#64748b0d", border: "#7b879b", control: "#c026d3", picked: "#dc2626",
        feeds: "#2563eb", fed: "#ea580c", tone: 0, none: {colour: "#e5e7eb", ink: "#374151"},
        lines: ["#1e293b", "#1e293b", "#475569", "#475569", "#6d28d9", "#075985", "#991b1b"],
    },
    dark: {
        page: "#0b1120", ink: "#e2e8f0", wire: "#94a3b8", soft: "#94a3b8", stub: "#93c5fd",
        frame: "#94a3b810", border: "#66768f", control: "#e879f9", picked: "#f87171",
        feeds: "#60a5fa", fed: "#fb923c", tone: 2, none: {colour: "#1f2937", ink: "#cbd5e1"},
        lines: ["#e2e8f0", "#e2e8f0", "#94a3b8", "#cbd5e1", "#c4b5fd", "#7dd3fc", "#fca5a5"],
    },
};

const HEADING = 10; // pixels
const TEXT_FROM = 0.34, STUBS_FROM = 0.5, CURVES_FROM = 0.12; // scales from which these are drawn

// ---- pens -------------------------------------------------------------------------------------

class CanvasPen {
    constructor(context) {
        this.c = context;
    }

    rect(x, y, w, h, round, fill, line, width, dash) {
        const c = this.c;
        c.beginPath();
        if (round)
            c.roundRect(x, y, w, h, round);
        else
            c.rect(x, y, w, h);
        if (fill) {
            c.fillStyle = fill;
            c.fill();
        }
        if (line) {
            c.strokeStyle = line;
            c.lineWidth = width;
            c.setLineDash(dash || []);
            c.stroke();
        }
    }

    text(x, y, text, colour, size, bold) {
        const c = this.c, font = `${bold ? "bold " : ""}${size}px ${FONT}`;
        if (this.font !== font)
            c.font = this.font = font;
        c.fillStyle = colour;
        c.fillText(text, x, y);
    }

    // Lines [x, y, x, y...] or, with curves, [x0, y0, middle, x1, y1] behind one another.
    wires(strokes, colour, width, curved) {
        const c = this.c;
        c.beginPath();
        for (const t of strokes) {
            c.moveTo(t.x0, t.y0);
            if (!curved || t.x0 === t.x1) {
                c.lineTo(t.x1, t.y1);
                continue;
            }
            const middle = (t.turn0 + t.turn1) / 2;
            c.lineTo(t.x0, t.turn0);
            c.bezierCurveTo(t.x0, middle, t.x1, middle, t.x1, t.turn1);
            c.lineTo(t.x1, t.y1);
        }
        c.strokeStyle = colour;
        c.lineWidth = width;
        c.setLineDash([]);
        c.stroke();
    }

    heads(strokes, colour) {
        const c = this.c;
        c.beginPath();
        for (const t of strokes) {
            c.moveTo(t.x1, t.y1);
            c.lineTo(t.x1 - 3, t.y1 - 6);
            c.lineTo(t.x1 + 3, t.y1 - 6);
        }
        c.fillStyle = colour;
        c.fill();
    }
}

const escape = (text) => text.replace(/[<>&"']/g, (c) => `&#${c.charCodeAt(0)};`)
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");

export class SvgPen {
    constructor() {
        this.parts = [];
    }

    rect(x, y, w, h, round, fill, line, width, dash) {
        this.parts.push(`<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="${round}" ` +
            `fill="${fill || "none"}"` + (line ? ` stroke="${line}" stroke-width="${width}"` : "") +
            (dash ? ` stroke-dasharray="${dash}"` : "") + "/>");
    }

    text(x, y, text, colour, size, bold) {
        this.parts.push(`<text x="${x}" y="${y}" fill="${colour}" font-size="${size}"` +
            (bold ? ' font-weight="bold"' : "") + `>${escape(text)}</text>`);
    }

    wires(strokes, colour, width) {
        const d = strokes.map((t) => {
            if (t.x0 === t.x1)
                return `M${t.x0} ${t.y0}V${t.y1}`;
            const middle = (t.turn0 + t.turn1) / 2;
            return `M${t.x0} ${t.y0}V${t.turn0}C${t.x0} ${middle} ${t.x1} ${middle} ` +
                `${t.x1} ${t.turn1}V${t.y1}`;
        });
        if (d.length)
            this.parts.push(`<path d="${d.join("")}" fill="none" stroke="${colour}" ` +
                `stroke-width="${width}"/>`);
    }

    heads(strokes, colour) {
        const d = strokes.map((t) => `M${t.x1} ${t.y1}l-3 -6h6z`).join("");
        if (d)
            this.parts.push(`<path d="${d}" fill="${colour}"/>`);
    }

    page(rect, colour) {
        const {x, y, w, h} = rect;
        return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" ` +
            `viewBox="${x} ${y} ${w} ${h}" font-family="${FONT}" xml:space="preserve">\n` +
            `<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${colour}"/>\n` +
            this.parts.join("\n") + "\n</svg>\n";
    }
}

// ---- wires ------------------------------------------------------------------------------------

// The strokes of a frame on the page; kept until the frame is laid out or moved again.
function strokesOf(layout, frame) {
    const placed = layout.placed.get(frame), rect = layout.rects.get(frame);
    if (placed.strokes && placed.strokesX === rect.x && placed.strokesY === rect.y)
        return placed.strokes;
    const {graph: g, s} = placed, strokes = [];
    for (let a = 0; a < g.m; a++) {
        const from = g.from[a], to = g.to[a], item = g.item[to];
        const ends = item >= 0 && !(layout.isOpen(item) && s.ports[to]);
        strokes.push({
            x0: rect.x + s.x[from] + s.exit[a],
            y0: rect.y + (g.port[from] && !g.rank[from] ? 0 : s.bottom[from]),
            turn0: rect.y + s.turn0[a], turn1: rect.y + s.turn1[a],
            x1: rect.x + s.x[to] + s.entry[a], y1: rect.y + s.top[to],
            source: g.sources[g.arcNet[a]], ends, item, bend: item < 0 ? to : -1,
        });
    }
    placed.strokes = strokes;
    placed.strokesX = rect.x;
    placed.strokesY = rect.y;
    return strokes;
}

function meets(t, v) {
    return Math.max(t.x0, t.x1) >= v.x && Math.min(t.x0, t.x1) <= v.x + v.w &&
        t.y1 >= v.y && t.y0 <= v.y + v.h;
}

function overlaps(r, v) {
    return r.x <= v.x + v.w && r.x + r.w >= v.x && r.y <= v.y + v.h && r.y + r.h >= v.y;
}

// ---- the picture ------------------------------------------------------------------------------

// look: {layout, theme, tones, picked, fill(item), mark(item)}; view: the part of the page.
export class Picture {
    constructor(pen, look, view, scale) {
        Object.assign(this, look);
        this.pen = pen;
        this.view = view;
        this.scale = scale;
        this.graph = this.layout.graph;
        this.frames = [];
        this.boxes = [];
        this.collect(0);
    }

    collect(frame) {
        const rects = this.layout.rects;
        for (const i of this.graph.children[frame] || []) {
            const r = rects.get(i);
            if (!overlaps({x: r.x - 150, y: r.y, w: r.w + 150, h: r.h}, this.view))
                continue;
            if (this.layout.isOpen(i)) {
                this.frames.push(i);
                this.collect(i);
            } else {
                this.boxes.push(i);
            }
        }
    }

    paint() {
        for (const i of this.frames)
            this.frame(i);
        this.wires();
        for (const i of this.boxes)
            this.box(i);
        for (const i of this.frames)
            this.title(i);
    }

    frame(i) {
        const r = this.layout.rects.get(i), t = this.theme;
        const line = this.graph.kind[i] === HOLDER ? t.control : t.border;
        this.pen.rect(r.x, r.y, r.w, r.h, 8, t.frame, line, 1);
        this.edge(i, r);
    }

    // What is picked and what differs has a border of its own.
    edge(i, r) {
        const mark = this.mark(i);
        if (mark)
            this.pen.rect(r.x - 3, r.y - 3, r.w + 6, r.h + 6, 9, null, mark.colour, 2.5, mark.dash);
        if (i === this.picked)
            this.pen.rect(r.x - 2, r.y - 2, r.w + 4, r.h + 4, 8, null, this.theme.picked,
                Math.max(3, 2 / this.scale));
    }

    wires() {
        const curved = this.scale >= CURVES_FROM, width = Math.max(1.2, 0.6 / this.scale);
        const plain = [], feeds = [], fed = [], heads = [];
        const near = this.near();
        for (const frame of [0, ...this.frames])
            for (const t of strokesOf(this.layout, frame)) {
                if (!meets(t, this.view))
                    continue;
                if (this.picked > 0 && this.graph.contains(this.picked, t.source))
                    fed.push(t);
                else if (near.has(t.source) && this.leadsToPicked(t))
                    feeds.push(t);
                else
                    plain.push(t);
                if (t.ends && curved)
                    heads.push(t);
            }
        this.pen.wires(plain, this.theme.wire, width, curved);
        this.pen.heads(heads, this.theme.wire);
        this.pen.wires(feeds, this.theme.feeds, Math.max(2.2, 1.4 / this.scale), curved);
        this.pen.wires(fed, this.theme.fed, Math.max(2.2, 1.4 / this.scale), curved);
    }

    // The sources of what comes into the picked item.
    near() {
        const g = this.graph, list = new Set();
        if (this.picked > 0)
            for (let k = this.picked; k < g.end[this.picked]; k++)
                for (const from of g.inputs[k])
                    if (!g.contains(this.picked, from))
                        list.add(from);
        return list;
    }

    // A wire of such a source is lit where it goes on to the picked item.
    leadsToPicked(t) {
        const g = this.graph;
        return t.item < 0 || t.item === this.picked || g.contains(t.item, this.picked);
    }

    box(i) {
        const r = this.layout.rects.get(i), t = this.theme, g = this.graph;
        const tone = this.tones[g.family[i]], own = this.fill(i);
        const fill = own ? own.colour : tone[t.tone], line = tone[t.tone + 1];
        const small = this.scale < CURVES_FROM, round = small ? 0 : g.family[i] < 2 ? 12 : 5;
        if (g.isFrame(i) && !small) {
            const steps = g.kind[i] === REPEAT ? 2 : 1; // more is behind it
            for (let k = steps; k; k--)
                this.pen.rect(r.x + 4 * k, r.y + 4 * k, r.w, r.h, round, fill, line, 1);
        }
        this.pen.rect(r.x, r.y, r.w, r.h, round, fill, small ? null : line, 1);
        this.edge(i, r);
        if (this.scale < TEXT_FROM) {
            this.heading(i, r, own);
            return;
        }
        const lines = g.lines(i, false), used = lines.length * LINE + 10;
        this.lines(lines, r.x + PAD, r.y + 4 + (r.h - used) / 2, own && own.ink);
        if (own && own.text)
            this.pen.text(r.x + r.w - own.text.length * 6, r.y - 3, own.text, t.ink, 10, true);
        if (this.scale >= STUBS_FROM)
            this.stubs(i, r);
    }

    // From afar a box has its name alone: of one size on the screen, and as much of it as fits.
    heading(i, r, own) {
        const name = this.graph.label(i), size = Math.min(HEADING / this.scale, 0.9 * r.h);
        const room = Math.floor((r.w - PAD / 2) / (0.61 * size));
        if (size * this.scale < 7 || room < Math.min(name.length, 4))
            return;
        const text = name.length > room ? name.slice(0, room - 1) + "…" : name;
        this.pen.text(r.x + (r.w - 0.6 * size * text.length) / 2, r.y + r.h / 2 + size / 3, text,
            own ? own.ink : this.theme.ink, size, true);
    }

    lines(lines, x, y, ink) {
        lines.forEach(([style, text], k) => {
            this.pen.text(x, y + 12 + k * LINE, text, ink || this.theme.lines[style], 11.5,
                style === 0);
        });
    }

    stubs(i, r) {
        this.layout.stubNames(i).forEach((name, k) => {
            const y = r.y + 10 + k * LINE, t = {x0: r.x - 14, y0: y, x1: r.x - 14, y1: y};
            this.pen.text(t.x0 - 3 - name.length * 6, y + 4, name, this.theme.stub, 10);
            this.pen.rect(t.x0, y - 0.6, 13, 1.2, 0, this.theme.stub);
        });
    }

    title(i) {
        const r = this.layout.rects.get(i), placed = this.layout.placed.get(i);
        if (this.scale >= TEXT_FROM) {
            this.lines(this.graph.lines(i, true), r.x + placed.titleX, r.y + 4);
            return;
        }
        const name = this.graph.label(i), size = Math.min(7 / this.scale, 2 * r.w / name.length);
        if (size * this.scale >= 6 && size < r.h / 3)
            this.pen.text(r.x + PAD, r.y + size, name, this.theme.soft, size, true);
    }
}

export function paintCanvas(canvas, look, camera) {
    const ratio = window.devicePixelRatio || 1, c = canvas.getContext("2d");
    const w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
        canvas.width = Math.round(w * ratio);
        canvas.height = Math.round(h * ratio);
    }
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = look.theme.page;
    c.fillRect(0, 0, w, h);
    const k = camera.scale;
    c.setTransform(ratio * k, 0, 0, ratio * k, ratio * camera.x, ratio * camera.y);
    const view = {x: -camera.x / k, y: -camera.y / k, w: w / k, h: h / k};
    const picture = new Picture(new CanvasPen(c), look, view, k);
    picture.paint();
    return picture;
}

// The picture as an SVG text: all of it, or a part.
export function paintSvg(look, rect) {
    const pen = new SvgPen();
    const around = {x: rect.x - 16, y: rect.y - 16, w: rect.w + 32, h: rect.h + 32};
    new Picture(pen, look, around, 1).paint();
    return pen.page(around, look.theme.page);
}
