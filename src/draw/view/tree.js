// The tree of modules and nodes, for the eye and for screen readers: real elements with roles, made
// when their parent is opened. Arrows walk it as trees are walked elsewhere.

import {REPEAT} from "./data.js";
import {clear, element} from "./dom.js";

const CHUNK = 300; // children that are made at once

export class Tree {
    constructor(viewer, host) {
        this.viewer = viewer;
        this.host = host;
        host.addEventListener("keydown", (e) => this.key(e));
        host.addEventListener("click", (e) => this.click(e));
    }

    show(pane) {
        this.pane = pane;
        this.opened = new Set(pane.layout.open);
        this.rows = new Map();
        clear(this.host, this.group(0));
        const first = this.host.querySelector("[role=treeitem]");
        if (first)
            first.tabIndex = 0;
    }

    group(parent) {
        const list = element("ul", {role: parent ? "group" : "presentation"});
        this.fill(list, this.pane.graph.children[parent] || [], 0);
        return list;
    }

    fill(list, children, from) {
        const end = Math.min(children.length, from + CHUNK);
        list.append(...children.slice(from, end).map((i) => this.row(i)));
        if (end < children.length)
            list.append(element("li", {role: "none"}, element("button", {
                class: "link",
                onclick: (e) => {
                    e.target.parentElement.remove();
                    this.fill(list, children, end);
                },
            }, `${children.length - end} more`)));
    }

    row(i) {
        const g = this.pane.graph, frame = g.isFrame(i);
        const node = g.isNode(i);
        const said = node ? g.op(i) : g.kind[i] === REPEAT
            ? `${g.call(i)} × ${last(g.type(i))}` : last(g.type(i));
        const row = element("li", {
            role: "treeitem", "data-item": String(i), tabindex: "-1",
            "aria-expanded": frame ? String(this.opened.has(i)) : null,
            "aria-selected": String(this.pane.picked === i),
            "aria-level": String(g.depth[i]),
        }, element("div", {class: "row", title: `${g.label(i)} ${said}`},
            element("span", {class: "twist", "aria-hidden": "true"}, frame ? "" : null),
            element("i", {class: "tone", style: `background:${this.viewer.toneOf(g, i)}`}),
            element("b", {}, g.label(i)), element("span", {class: "said"}, said)));
        if (frame && this.opened.has(i))
            row.append(this.group(i));
        this.rows.set(i, row);
        return row;
    }

    expand(i, open) {
        const row = this.rows.get(i);
        if (!row || this.opened.has(i) === open)
            return;
        if (open)
            this.opened.add(i);
        else
            this.opened.delete(i);
        row.setAttribute("aria-expanded", String(open));
        if (open)
            row.append(this.group(i));
        else
            row.querySelector(":scope > ul").remove();
    }

    // Opens the rows above an item and puts it in sight.
    pick(i) {
        for (const k of this.rows.values())
            if (k.getAttribute("aria-selected") === "true")
                k.setAttribute("aria-selected", "false");
        if (i <= 0)
            return;
        for (const k of this.pane.graph.above(i).slice(1))
            this.expand(k, true);
        const row = this.rows.get(i);
        if (!row)
            return;
        row.setAttribute("aria-selected", "true");
        this.host.querySelectorAll("[tabindex='0']").forEach((r) => { r.tabIndex = -1; });
        row.tabIndex = 0;
        row.firstElementChild.scrollIntoView({block: "nearest"});
    }

    rowOf(e) {
        const row = e.target.closest("[role=treeitem]");
        return row ? Number(row.dataset.item) : -1;
    }

    click(e) {
        const i = this.rowOf(e);
        if (i < 0 || e.target.closest("button"))
            return;
        if (e.target.closest(".twist") && this.pane.graph.isFrame(i))
            this.expand(i, !this.opened.has(i));
        else
            this.viewer.go(this.pane, i);
    }

    key(e) {
        const i = this.rowOf(e), g = this.pane.graph;
        if (i < 0)
            return;
        const rows = [...this.host.querySelectorAll("[role=treeitem]")];
        const at = rows.indexOf(this.rows.get(i)), open = this.opened.has(i);
        const to = {
            ArrowDown: rows[at + 1], ArrowUp: rows[at - 1], Home: rows[0],
            End: rows[rows.length - 1],
            ArrowLeft: open ? null : this.rows.get(g.parent[i]),
            ArrowRight: open ? rows[at + 1] : null,
        }[e.key];
        if (e.key === "ArrowLeft" && open)
            this.expand(i, false);
        else if (e.key === "ArrowRight" && !open && g.isFrame(i))
            this.expand(i, true);
        else if (e.key === "Enter" || e.key === " ")
            this.viewer.go(this.pane, i);
        else if (to) {
            this.rows.get(i).tabIndex = -1;
            to.tabIndex = 0;
            to.focus();
        } else if (to === undefined)
            return;
        e.preventDefault();
        e.stopPropagation();
    }
}

function last(path) {
    return path.slice(path.lastIndexOf(".") + 1);
}
