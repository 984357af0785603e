// Search over names, operators, modules and shapes. Words are all looked for; "op:relu",
// "module:layer.0", "shape:[1, 64]" and "name:add" look in one place alone; "/relu|gelu/" is a
// regular expression.

import {BOX, GRAPH} from "./data.js";
import {clear, element} from "./dom.js";

const MOST = 200;

// Whether a text has a word in it, or what a regular expression between slashes describes.
function tester(word) {
    const between = /^\/(.+?)\/?$/.exec(word);
    if (!between)
        return (text) => text.toLowerCase().includes(word);
    try {
        const expression = new RegExp(between[1], "i");
        return (text) => expression.test(text);
    } catch {
        return () => false; // not whole yet
    }
}

export class Search {
    constructor(viewer, input, results) {
        this.viewer = viewer;
        this.input = input;
        this.results = results;
        this.found = [];
        this.at = -1;
        input.addEventListener("input", () => this.run());
        input.addEventListener("keydown", (e) => this.key(e));
        input.addEventListener("focus", () => this.run());
    }

    fields(g, i) {
        const [path, type] = g.module(i);
        return {
            name: g.anchor(i), op: g.target(i) || g.op(i), module: `${path} ${type}`,
            shape: g.shape(i),
        };
    }

    // Whether an item fits all words; a name that starts with the word comes first.
    rank(g, i, words) {
        const f = this.fields(g, i);
        let best = 2;
        for (const [field, word, has] of words) {
            const where = field ? [f[field] || ""] : Object.values(f);
            if (!where.some(has))
                return -1;
            const name = g.name(i).toLowerCase();
            best = Math.min(best, name === word ? 0 : name.startsWith(word) ? 1 : 2);
        }
        return best;
    }

    run() {
        const pane = this.viewer.active, g = pane.graph;
        const words = this.input.value.toLowerCase().match(/\S+:\[[^\]]*\]?|\S+/g) || [];
        const asked = words.map((word) => {
            const m = /^(name|op|module|shape):(.+)$/.exec(word);
            return m ? [m[1], m[2], tester(m[2])] : [null, word, tester(word)];
        });
        this.found = [];
        if (asked.length) {
            const ranked = [[], [], []];
            for (let i = 1; i < g.count; i++) {
                const rank = g.kind[i] === GRAPH ? -1 : this.rank(g, i, asked);
                if (rank >= 0)
                    ranked[rank].push(i);
            }
            this.found = ranked.flat();
        }
        this.at = -1;
        this.show();
    }

    show() {
        const pane = this.viewer.active, g = pane.graph, n = this.found.length;
        this.input.setAttribute("aria-expanded", String(n > 0));
        this.results.hidden = !this.input.value.trim();
        clear(this.results,
            element("p", {role: "status"}, n ? `${n} found` : "nothing fits"),
            ...this.found.slice(0, MOST).map((i, k) => element("button", {
                role: "option", "aria-selected": String(k === this.at),
                onclick: () => this.take(k),
            }, element("i", {class: "tone", style: `background:${this.viewer.toneOf(g, i)}`}),
            element("b", {}, g.name(i) || g.label(i)),
            element("span", {}, g.isFrame(i) ? g.type(i) : `${g.op(i)} ${g.shape(i)}`),
            element("span", {class: "where"}, this.where(g, i)))),
            n > MOST ? element("p", {}, `and ${n - MOST} more`) : null);
    }

    // The module that it is in; of a module the path, where that is more than its name.
    where(g, i) {
        const [path] = g.module(g.kind[i] === BOX ? i : g.parent[i]);
        return path || g.prefix(i);
    }

    take(k) {
        this.at = k;
        this.viewer.go(this.viewer.active, this.found[k]);
        this.show();
    }

    close() {
        this.results.hidden = true;
        this.input.blur();
    }

    key(e) {
        if (e.key === "Escape")
            this.close();
        else if (e.key === "Enter" && this.found.length) {
            this.take((this.at + (e.shiftKey ? this.found.length - 1 : 1)) % this.found.length);
        } else if (e.key === "ArrowDown" && this.found.length)
            this.take(Math.min(this.at + 1, this.found.length - 1));
        else if (e.key === "ArrowUp" && this.found.length)
            this.take(Math.max(this.at - 1, 0));
        else
            return;
        e.preventDefault();
    }
}
