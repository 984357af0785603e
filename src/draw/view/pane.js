// A pane: one graph on a canvas, with its own camera, open frames and picked item.

import {element} from "./dom.js";
import {Layout} from "./place.js";
import {paintCanvas, paintSvg} from "./paint.js";

const SMALLEST = 0.004, LARGEST = 4, READABLE = 0.9;
const FIRST = 0.65; // the least scale of the first screen: text of 7 pixels
const FIRST_BOXES = [60, 40, 26, 16, 10]; // on the first screen, as many as can be read there
const FEW = 5; // boxes that tell less than the top of what is in them

export class Pane {
    constructor(viewer, graph, number) {
        this.viewer = viewer;
        this.graph = graph;
        this.number = number;
        this.layout = new Layout(graph);
        this.camera = {x: 0, y: 0, scale: 1};
        this.picked = -1;
        this.canvas = element("canvas", {"aria-hidden": "true"});
        this.tip = element("div", {class: "tip", hidden: true});
        this.host = element("section", {class: "pane", "aria-label": graph.title},
            this.canvas, this.tip);
        this.listen();
        new ResizeObserver(() => this.resized()).observe(this.host);
    }

    // ---- the camera ---------------------------------------------------------------------------

    get width() {
        return this.canvas.clientWidth;
    }

    get height() {
        return this.canvas.clientHeight;
    }

    toPage(x, y) {
        const {x: cx, y: cy, scale} = this.camera;
        return [(x - cx) / scale, (y - cy) / scale];
    }

    zoom(factor, x = this.width / 2, y = this.height / 2) {
        this.fitted = false;
        const c = this.camera, scale = Math.min(Math.max(c.scale * factor, SMALLEST), LARGEST);
        c.x = x - (x - c.x) * scale / c.scale;
        c.y = y - (y - c.y) * scale / c.scale;
        c.scale = scale;
        this.repaint();
    }

    move(dx, dy) {
        this.fitted = false;
        this.camera.x += dx;
        this.camera.y += dy;
        this.repaint();
    }

    cameraFor(rect, largest) {
        const room = 24, scale = Math.min((this.width - 2 * room) / rect.w,
            (this.height - 2 * room) / rect.h, largest);
        const k = Math.max(scale, SMALLEST);
        return {
            scale: k,
            x: this.width / 2 - k * (rect.x + rect.w / 2),
            y: this.height / 2 - k * (rect.y + rect.h / 2),
        };
    }

    // All of it, or one item; a picture that is tall starts at its top where it can be read.
    fit(item = 0) {
        this.fly(this.cameraFor(this.layout.rects.get(item), item ? READABLE * 1.4 : 1));
        this.fitted = !item;
    }

    // What was fitted stays so when the window changes.
    resized() {
        if (this.fitted && this.width && this.height)
            this.camera = this.cameraFor(this.layout.rects.get(0), 1);
        this.paint();
    }

    // The first screen: all of the graph, as deep as it can be read. Where even a few boxes are too
    // much for the window, or only a few are left, as wide as it is and from its top.
    start() {
        const {layout, graph: {raw: {depth}}} = this;
        const open = (most, widthAlone) => {
            layout.openSome(most, depth);
            const {w} = layout.rects.get(0), wide = Math.min(READABLE, (this.width - 24) / w);
            this.camera = widthAlone ? {scale: wide, x: this.width / 2 - wide * w / 2, y: 12}
                : this.cameraFor(layout.rects.get(0), 1);
            return this.camera.scale >= FIRST;
        };
        const boxes = depth ? [0] : FIRST_BOXES;
        const fit = boxes.findIndex((most) => open(most, false));
        const few = fit > 0 && layout.rects.size - layout.open.size < FEW;
        const deeper = few && open(boxes[fit - 1], true);
        this.fitted = fit >= 0 && !deeper;
        if (few && !deeper)
            open(boxes[fit], false);
        else if (fit < 0 && !open(boxes[boxes.length - 1], true) && !open(1, true)) {
            const c = this.camera;
            c.x = this.width / 2 - FIRST * layout.rects.get(0).w / 2;
            c.scale = FIRST;
        }
        this.paint();
    }

    fly(to) {
        this.fitted = false;
        cancelAnimationFrame(this.flight);
        if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
            this.camera = to;
            this.paint();
            return;
        }
        const from = {...this.camera}, began = performance.now();
        const step = (now) => {
            const t = Math.min(1, (now - began) / 220), e = t * (2 - t);
            for (const key of ["x", "y", "scale"])
                this.camera[key] = from[key] + e * (to[key] - from[key]);
            this.paint();
            if (t < 1)
                this.flight = requestAnimationFrame(step);
        };
        this.flight = requestAnimationFrame(step);
    }

    // ---- painting -----------------------------------------------------------------------------

    get look() {
        const {theme, tones} = this.viewer;
        return {
            layout: this.layout, theme, tones, picked: this.picked,
            fill: (i) => this.viewer.fill(this, i), mark: (i) => this.viewer.mark(this, i),
        };
    }

    paint() {
        if (this.width && this.height)
            paintCanvas(this.canvas, this.look, this.camera);
    }

    // Once for all that changes before the next frame.
    repaint() {
        if (this.waiting)
            return;
        this.waiting = true;
        requestAnimationFrame(() => {
            this.waiting = false;
            this.paint();
        });
    }

    svg() {
        return paintSvg(this.look, this.layout.rects.get(0));
    }

    // ---- frames and picking -------------------------------------------------------------------

    // Opens or closes a frame in place: what was clicked stays where it was on the screen.
    toggle(i) {
        if (!this.graph.isFrame(i) || i === 0)
            return;
        this.fitted = false;
        const open = !this.layout.isOpen(i), before = this.layout.rects.get(i);
        this.layout.set([i], open);
        const after = this.layout.rects.get(i), k = this.camera.scale;
        this.camera.x += k * (before.x + before.w / 2 - after.x - after.w / 2);
        this.camera.y += k * (before.y - after.y);
        if (!open && this.picked > i && this.graph.contains(i, this.picked))
            this.viewer.pick(this, i);
        this.paint();
        this.viewer.changed(this);
    }

    openAll(open) {
        const frames = [];
        for (let i = 1; i < this.graph.count; i++)
            if (this.graph.isFrame(i))
                frames.push(i);
        this.layout.set(frames, open);
        this.fit();
        this.viewer.changed(this);
    }

    // Opens what is around an item, so that it is seen.
    reveal(i) {
        const closed = this.graph.above(i).filter((k) => !this.layout.isOpen(k));
        if (closed.length) {
            this.layout.set(closed, true);
            this.viewer.changed(this);
        }
    }

    show(i) {
        this.reveal(i);
        this.fitted = false;
        const r = this.layout.rects.get(i), [x0, y0] = this.toPage(0, 0);
        const [x1, y1] = this.toPage(this.width, this.height);
        const inside = r.x >= x0 && r.x + r.w <= x1 && r.y >= y0 && r.y + r.h <= y1;
        if (!inside || this.camera.scale < READABLE / 2) {
            const around = {x: r.x - 200, y: r.y - 150, w: r.w + 400, h: r.h + 300};
            this.fly(this.cameraFor(around, READABLE));
        } else {
            this.paint();
        }
    }

    // The innermost item at a place of the canvas; 0: the page.
    itemAt(x, y) {
        const [px, py] = this.toPage(x, y);
        let at = 0;
        for (let next = 0; next >= 0;) {
            at = next;
            next = -1;
            if (at === 0 || this.layout.isOpen(at))
                for (const k of this.graph.children[at] || []) {
                    const r = this.layout.rects.get(k);
                    if (px >= r.x && px <= r.x + r.w && py >= r.y && py <= r.y + r.h)
                        next = k;
                }
        }
        return at;
    }

    // ---- listening ----------------------------------------------------------------------------

    listen() {
        const c = this.canvas, held = new Map(); // fingers, by their id
        let drag = null;
        c.addEventListener("wheel", (e) => {
            e.preventDefault();
            const notch = e.deltaMode ? 0.05 : 0.0015;
            if (e.ctrlKey || !e.shiftKey)
                this.zoom(Math.exp(-e.deltaY * notch), e.offsetX, e.offsetY);
            else
                this.move(-e.deltaX - e.deltaY, 0);
        }, {passive: false});
        c.addEventListener("pointerdown", (e) => {
            drag = {x: e.clientX, y: e.clientY, moved: held.size > 0};
            held.set(e.pointerId, {x: e.offsetX, y: e.offsetY});
            c.setPointerCapture(e.pointerId);
            this.viewer.activate(this);
        });
        c.addEventListener("pointermove", (e) => {
            if (!drag) {
                this.hover(e);
                return;
            }
            if (held.size === 2) {
                this.pinch(held, e);
                return;
            }
            const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
            if (!drag.moved && Math.abs(dx) + Math.abs(dy) < 4)
                return;
            drag = {x: e.clientX, y: e.clientY, moved: true};
            this.tip.hidden = true;
            this.move(dx, dy);
        });
        c.addEventListener("pointercancel", (e) => {
            held.delete(e.pointerId);
            drag = null;
        });
        c.addEventListener("pointerup", (e) => {
            const moved = !drag || drag.moved;
            held.delete(e.pointerId);
            drag = null; // a finger that is left begins nothing new
            if (!moved)
                this.viewer.pick(this, this.itemAt(e.offsetX, e.offsetY) || -1);
        });
        c.addEventListener("pointerleave", () => { this.tip.hidden = true; });
        c.addEventListener("dblclick", (e) => this.toggle(this.itemAt(e.offsetX, e.offsetY)));
    }

    // Two fingers: the page moves with their middle and grows with their distance.
    pinch(held, e) {
        const measure = () => {
            const [a, b] = held.values();
            return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2,
                d: Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1)};
        };
        const before = measure();
        held.set(e.pointerId, {x: e.offsetX, y: e.offsetY});
        const after = measure();
        this.move(after.x - before.x, after.y - before.y);
        this.zoom(after.d / before.d, after.x, after.y);
    }

    hover(e) {
        const i = this.itemAt(e.offsetX, e.offsetY), g = this.graph;
        this.canvas.style.cursor = i ? "pointer" : "grab";
        const wanted = i > 0 && (this.camera.scale < READABLE || g.isFrame(i));
        this.tip.hidden = !wanted;
        if (!wanted)
            return;
        const node = g.isNode(i);
        const fact = this.viewer.factOf(this);
        this.tip.textContent = [g.label(i), node ? g.op(i) : g.type(i), node ? g.shape(i) : "",
            fact ? `${fact.name}: ${fact.text(fact.of(i)) || "none"}` : "",
            g.isFrame(i) ? "double click opens and closes it" : ""].filter(Boolean).join("\n");
        this.tip.style.left = Math.min(e.offsetX + 14, this.width - 260) + "px";
        this.tip.style.top = e.offsetY + 18 + "px";
    }
}
