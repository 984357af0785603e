// The viewer: panes, panels, keys, links. Starts when the page is read.

import {Graph} from "./data.js";
import {clear, element} from "./dom.js";
import {showCard} from "./card.js";
import {memoryPanel} from "./memory.js";
import {Scale, legend, topList} from "./overlay.js";
import {themes} from "./paint.js";
import {Pane} from "./pane.js";
import {rooflinePanel} from "./roofline.js";
import {Search} from "./search.js";
import {Tree} from "./tree.js";

const KEYS = [
    ["/", "search: names, operators, modules, shapes; /a|b/ by a regular expression"],
    ["Enter", "open or close what is picked"],
    ["Backspace", "to the module around"],
    ["i", "to an input"], ["o", "to a user"],
    ["← →", "to the node before or after"],
    ["↑ ↓", "scroll; with Shift, sideways"],
    ["+ −", "zoom"], ["f", "fit what is picked"], ["0", "fit all"],
    ["e", "open everything"], ["c", "close everything"],
    ["v", "next overlay"], ["l", "logarithmic overlay"],
    ["n p", "next and previous difference"], ["x", "the other graph"],
    ["t", "tree of modules"], ["d", "dark or light"],
    ["s", "save as SVG; with Shift what is seen as PNG"],
    ["1–9", "go to a bookmark; Shift sets it"],
    ["?", "this list"], ["Esc", "close, pick nothing"],
];

const NARROW = matchMedia("(max-width: 760px)"); // as view.css has it
const id = (name) => document.getElementById(name);

class Viewer {
    constructor(data) {
        this.data = data;
        this.tones = data.tones;
        this.overlay = "";
        this.log = false;
        this.roofOfSeen = false; // the roofline has boxes that are seen, not kernels
        this.bookmarks = new Map();
        this.dark = matchMedia("(prefers-color-scheme: dark)").matches;
        this.graphs = data.graphs.map((raw) => new Graph(raw));
        if (this.graphs.length > 1)
            this.graphs.forEach((g, k) => { g.title = `${"AB"[k]}: ${g.title}`; });
        this.readPairs(data.pairs || []);
        this.panes = this.graphs.map((g, k) => new Pane(this, g, k));
        this.active = this.panes[0];
        id("panes").append(...this.panes.map((p) => p.host));
        document.title = this.graphs.map((g) => g.title).join(" | ");
        id("title").textContent = document.title;
        id("count").textContent = this.graphs.map((g) => `${g.countNodes(0)} nodes`).join(", ");
        this.tree = new Tree(this, id("tree"));
        this.search = new Search(this, id("search"), id("results"));
        this.fillOverlays();
        this.wireButtons();
        this.showTree(!NARROW.matches);
        NARROW.addEventListener("change", () => this.showTree(!NARROW.matches));
        this.setDark(this.dark);
        for (const pane of this.panes)
            pane.start();
        this.activate(this.active);
        this.readLink();
        addEventListener("hashchange", () => this.readLink());
        addEventListener("keydown", (e) => this.key(e));
    }

    get theme() {
        return themes[this.dark ? "dark" : "light"];
    }

    toneOf(g, i) {
        return this.tones[g.family[i]][this.theme.tone + 1];
    }

    say(text) {
        id("said").textContent = text;
    }

    // ---- picking ------------------------------------------------------------------------------

    activate(pane) {
        if (this.active === pane && this.tree.pane)
            return;
        this.active = pane;
        for (const p of this.panes)
            p.host.classList.toggle("active", p === pane && this.panes.length > 1);
        this.tree.show(pane);
        this.tree.pick(pane.picked);
        this.showDetails(pane);
        this.showOverlay();
        this.showDifferences();
    }

    // Picks an item without moving; -1 picks nothing.
    pick(pane, i) {
        this.activate(pane);
        pane.picked = i;
        pane.repaint();
        this.tree.pick(i);
        this.showDetails(pane);
        const g = pane.graph;
        this.say(i < 0 ? "nothing picked"
            : [g.label(i), g.op(i), g.shape(i)].filter(Boolean).join(", "));
        this.follow(pane, i);
        this.showDifferences();
        this.writeLink();
    }

    // The card of what is picked, and charts of the frame that it is, or of all.
    showDetails(pane) {
        showCard(id("card"), pane);
        clear(id("charts"), rooflinePanel(pane), memoryPanel(pane));
    }

    setRoof(ofSeen) {
        this.roofOfSeen = ofSeen;
        this.showDetails(this.active);
    }

    // Goes to an item: frames around it open, the camera moves. A tree that lies over it goes away.
    go(pane, i) {
        if (NARROW.matches)
            this.showTree(false);
        pane.reveal(i);
        this.pick(pane, i);
        pane.show(i);
    }

    // The other pane picks what belongs to i; where nothing does, it shows what is next to it.
    follow(pane, i) {
        const {other, items} = this.across(pane, i);
        if (!other)
            return;
        other.picked = items.length ? items[0] : -1;
        const seen = items.length ? items[0] : this.beside(pane, i);
        if (seen > 0)
            other.show(seen);
        other.repaint();
    }

    // A frame opened or closed: panels that show it change.
    changed(pane) {
        if (pane === this.active)
            this.showDetails(pane);
        this.rescale();
        this.showOverlay();
        this.writeLink();
    }

    // ---- two graphs ---------------------------------------------------------------------------

    // pairs: [item, item of the other, whether they differ, ...].
    readPairs(pairs) {
        this.partners = this.graphs.map(() => new Map());
        this.differs = this.graphs.map(() => new Set());
        for (let k = 0; k < pairs.length; k += 3)
            for (const side of [0, 1]) {
                const map = this.partners[side], own = pairs[k + side];
                if (!map.has(own))
                    map.set(own, []);
                map.get(own).push(pairs[k + 1 - side]);
                if (pairs[k + 2])
                    this.differs[side].add(own);
            }
    }

    across(pane, i) {
        const other = this.panes[1 - pane.number];
        if (this.panes.length < 2 || !other)
            return {other: null, items: [], state: ""};
        const items = i > 0 ? this.partners[pane.number].get(i) || [] : [];
        const changed = this.differs[pane.number].has(i);
        return {other, items, state: changed ? "Changed" : "The same"};
    }

    // The place in the other graph of a node that it has not: what belongs to the nearest of those
    // that use it, or else of those that it uses; 0: there is none.
    beside(pane, i) {
        const g = pane.graph, partners = this.partners[pane.number];
        for (const next of i > 0 && g.isNode(i) ? [g.users, g.inputs] : []) {
            const seen = new Set([i]);
            for (let front = [i]; front.length;) {
                front = [...new Set(front.flatMap((k) => next[k]))].filter((k) => !seen.has(k));
                front.forEach((k) => seen.add(k));
                const near = front.find((k) => partners.has(k));
                if (near)
                    return partners.get(near)[0];
            }
        }
        return 0;
    }

    // How an item differs from the other graph: a colour and a dash, for those who see no colours.
    mark(pane, i) {
        if (this.panes.length < 2)
            return null;
        if (pane.graph.isFrame(i) && !pane.layout.isOpen(i))
            return this.frameDiffers(pane, i) ? {colour: "#d97706", dash: [2, 3]} : null;
        if (!pane.graph.isNode(i))
            return null;
        if (!this.partners[pane.number].has(i))
            return pane.number ? {colour: "#16a34a", dash: [8, 3]}
                : {colour: "#dc2626", dash: [3, 3]};
        return this.differs[pane.number].has(i) ? {colour: "#d97706", dash: null} : null;
    }

    frameDiffers(pane, i) {
        pane.different ||= this.differences(pane);
        return pane.different.some((k) => pane.graph.contains(i, k));
    }

    differences(pane) {
        const list = [];
        for (let i = 1; i < pane.graph.count; i++)
            if (pane.graph.isNode(i) && (!this.partners[pane.number].has(i) ||
                                         this.differs[pane.number].has(i)))
                list.push(i);
        return list;
    }

    // To the next difference of the active graph; of the other where this one has none.
    nextDifference(step) {
        const {active} = this, both = [active, this.panes[1 - active.number]];
        const pane = this.panes.length > 1 && both.find((p) => this.differences(p).length);
        if (!pane) {
            this.say("no differences");
            return;
        }
        const all = this.differences(pane);
        const after = (i) => i > pane.picked, before = (i) => i < pane.picked;
        const at = step > 0 ? all.find(after) : all.findLast(before);
        this.go(pane, at ?? (step > 0 ? all[0] : all[all.length - 1]));
    }

    // "2 of 7 differences", between buttons for both ways.
    showDifferences() {
        const {active: pane} = this, all = this.panes.length > 1 ? this.differences(pane) : [];
        id("differences").hidden = this.panes.length < 2;
        const at = all.indexOf(pane.picked) + 1;
        id("difference").textContent = !all.length ? "no differences"
            : `${at ? `${at} of ` : ""}${all.length} difference${all.length > 1 ? "s" : ""}`;
    }

    // ---- overlays -----------------------------------------------------------------------------

    fillOverlays() {
        const names = [...new Set(this.graphs.flatMap((g) =>
            g.facts.filter((f) => f.isOverlay).map((f) => f.name)))];
        this.overlays = names;
        // What --with gives is what the page is for; of two programs that is their differences.
        const given = this.graphs.length > 1 ? "" : this.graphs[0].raw.given;
        this.given = names.includes(given) ? given : "";
        id("overlay").append(...names.map((name) => element("option", {value: name}, name)));
        id("overlay").addEventListener("change", (e) => this.setOverlay(e.target.value));
    }

    factOf(pane) {
        return pane.graph.fact(this.overlay);
    }

    setOverlay(name) {
        this.overlay = this.overlays.includes(name) ? name : "";
        id("overlay").value = this.overlay;
        this.rescale();
        this.showOverlay();
        this.writeLink();
    }

    // The scale is over what is seen, in both graphs where there are two.
    rescale() {
        const values = this.panes.flatMap((pane) => {
            const fact = this.factOf(pane);
            return !fact ? [] : fact.kind === "text" ? [...fact.values.values()]
                : pane.layout.boxesSeen().map((i) => fact.of(i));
        }).filter((v) => v !== null);
        for (const pane of this.panes) {
            const fact = this.factOf(pane);
            pane.scale = fact ? new Scale(fact, this.log, values) : null;
            pane.repaint();
        }
    }

    showOverlay() {
        const {scale, graph} = this.active;
        clear(id("scale"), scale ? legend(scale) : null);
        id("top").hidden = !scale;
        const most = scale && (scale.fact.fromLow ? "Worst" : "Most");
        clear(id("top"), scale && scale.names === undefined
            ? element("h2", {}, `${most} ${scale.fact.title}`) : null,
        scale ? topList(graph, scale, (i) => this.go(this.active, i)) : null);
    }

    fill(pane, i) {
        return pane.scale ? pane.scale.of(i) || this.theme.none : null;
    }

    // ---- links --------------------------------------------------------------------------------

    // What is picked, bookmarks and how it is coloured stand in the address: it can be sent, and is
    // the same when the page is opened again.
    writeLink() {
        if (this.reading)
            return;
        const pane = this.active, words = new URLSearchParams();
        if (pane.picked > 0)
            words.set("at", pane.graph.anchor(pane.picked));
        if (pane.number)
            words.set("side", String(pane.number));
        if (this.overlay !== this.given)
            words.set("by", this.overlay);
        if (this.log)
            words.set("log", "1");
        for (const [number, anchor] of this.bookmarks)
            words.set(`mark${number}`, anchor);
        const hash = words.toString();
        history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
    }

    readLink() {
        const words = new URLSearchParams(location.hash.slice(1));
        const pane = this.panes[Number(words.get("side"))] || this.panes[0];
        this.reading = true;
        this.log = words.get("log") === "1";
        for (const [key, anchor] of words)
            if (/^mark[1-9]$/.test(key))
                this.bookmarks.set(key[4], anchor);
        this.setOverlay(words.get("by") ?? this.given);
        const anchor = words.get("at"), focus = pane.graph.raw.focus;
        const i = anchor ? pane.graph.find(anchor) : focus.length ? focus[0] : -1;
        if (i > 0)
            this.go(pane, i);
        else if (anchor)
            this.say(`${pane.graph.title} has no ${anchor}`);
        else if (this.panes.length > 1 && pane.picked < 0)
            this.nextDifference(1);
        this.reading = false;
    }

    // ---- buttons and keys ---------------------------------------------------------------------

    wireButtons() {
        id("dark").addEventListener("click", () => this.setDark(!this.dark));
        id("menu").addEventListener("click", () => this.showTree(id("tree").hidden));
        id("fit").addEventListener("click", () => this.active.fit());
        id("save").addEventListener("click", () => this.save());
        id("png").addEventListener("click", () => this.savePixels());
        id("before").addEventListener("click", () => this.nextDifference(-1));
        id("after").addEventListener("click", () => this.nextDifference(1));
        id("help").addEventListener("click", () => this.help());
        id("log").addEventListener("click", () => this.toggleLog());
        clear(id("keys"), ...KEYS.flatMap(([key, what]) =>
            [element("dt", {}, key), element("dd", {}, what)]));
    }

    showTree(open) {
        id("tree").hidden = !open;
        id("menu").setAttribute("aria-expanded", String(open));
    }

    setDark(dark) {
        this.dark = dark;
        document.documentElement.dataset.theme = dark ? "dark" : "light";
        for (const pane of this.panes)
            pane.paint();
        if (this.tree.pane) {
            this.tree.show(this.active);
            this.tree.pick(this.active.picked);
        }
    }

    toggleLog() {
        this.log = !this.log;
        id("log").setAttribute("aria-pressed", String(this.log));
        this.setOverlay(this.overlay);
    }

    download(blob, ending) {
        const link = element("a", {
            href: URL.createObjectURL(blob), download: `${this.active.graph.title}.${ending}`,
        });
        link.click();
        URL.revokeObjectURL(link.href);
    }

    save() {
        this.download(new Blob([this.active.svg()], {type: "image/svg+xml"}), "svg");
    }

    savePixels() {
        this.active.paint();
        this.active.canvas.toBlob((blob) => this.download(blob, "png"));
    }

    help() {
        const box = id("helpbox");
        if (box.open)
            box.close();
        else
            box.showModal();
    }

    step(list) {
        if (list.length)
            this.go(this.active, list[0]);
        else
            this.say("none");
    }

    bookmark(number, set) {
        const pane = this.active, at = pane.graph.find(this.bookmarks.get(number) || "");
        if (set && pane.picked > 0)
            this.bookmarks.set(number, pane.graph.anchor(pane.picked));
        else if (at > 0)
            this.go(pane, at);
        this.writeLink();
    }

    key(e) {
        if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select") ||
            (id("helpbox").open && e.key !== "?"))
            return;
        const pane = this.active, i = pane.picked, g = pane.graph;
        const digit = /^Digit([1-9])$/.exec(e.code);
        const actions = {
            "/": () => id("search").focus(),
            Enter: () => i > 0 && pane.toggle(i),
            Backspace: () => i > 0 && g.parent[i] > 0 && this.go(pane, g.parent[i]),
            i: () => i > 0 && this.step(g.inputs[i]),
            o: () => i > 0 && this.step(g.users[i]),
            ArrowRight: () => (e.shiftKey ? pane.move(-80, 0) : this.walk(1)),
            ArrowLeft: () => (e.shiftKey ? pane.move(80, 0) : this.walk(-1)),
            ArrowDown: () => pane.move(0, -80), ArrowUp: () => pane.move(0, 80),
            "+": () => pane.zoom(1.25), "=": () => pane.zoom(1.25), "-": () => pane.zoom(0.8),
            f: () => pane.fit(i > 0 ? pane.layout.seen(i) : 0), 0: () => pane.fit(),
            e: () => pane.openAll(true), c: () => pane.openAll(false),
            v: () => this.setOverlay(["", ...this.overlays][
                (this.overlays.indexOf(this.overlay) + 2) % (this.overlays.length + 1)]),
            l: () => this.toggleLog(),
            n: () => this.nextDifference(1), p: () => this.nextDifference(-1),
            t: () => this.showTree(id("tree").hidden),
            d: () => this.setDark(!this.dark), s: () => this.save(), S: () => this.savePixels(),
            "?": () => this.help(),
            Escape: () => this.pick(pane, -1),
            x: () => this.panes.length > 1 && this.activate(this.panes[1 - pane.number]),
        };
        if (digit)
            this.bookmark(digit[1], e.shiftKey);
        else if (!actions[e.key] || (e.key === "Enter" && e.target.closest("button")))
            return;
        else
            actions[e.key]();
        e.preventDefault();
    }

    walk(step) {
        const pane = this.active, next = pane.graph.neighbour(Math.max(pane.picked, 0), step);
        if (next > 0)
            this.go(pane, next);
    }
}

// Scripts and tests find it as window.viewer.
window.viewer = new Viewer(JSON.parse(id("data").textContent));
