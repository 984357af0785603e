// The card of what is picked: arguments, shapes, source line, weights and values.

import {REPEAT, brief} from "./data.js";
import {bars, clear, element} from "./dom.js";

function row(name, ...value) {
    return [element("dt", {}, name), element("dd", {}, ...value)];
}

// A text in which %names are links.
function linked(pane, i, text) {
    const parts = [], prefix = pane.graph.prefix(i);
    let from = 0;
    for (const m of text.matchAll(/%([A-Za-z_][A-Za-z0-9_]*)/g)) {
        const k = pane.graph.find(prefix + m[1]);
        parts.push(text.slice(from, m.index));
        parts.push(k < 0 ? m[1] : itemButton(pane, k, m[1]));
        from = m.index + m[0].length;
    }
    return [...parts, text.slice(from)];
}

export function itemButton(pane, i, text) {
    return element("button", {class: "link", onclick: () => pane.viewer.go(pane, i)},
        text || pane.graph.name(i) || pane.graph.label(i));
}

function list(pane, items) {
    const shown = items.slice(0, 24).flatMap((i) => [itemButton(pane, i), " "]);
    return items.length > 24 ? [...shown, `and ${items.length - 24} more`] : shown;
}

function share(n, of) {
    return of ? ` (${(100 * n / of).toFixed(n && n < of / 1000 ? 3 : 1)}%)` : "";
}

function weightCard(t) {
    const stats = t.count === undefined ? null : element("dl", {},
        ...row("range", `${brief(t.min)} … ${brief(t.max)}`),
        ...row("mean", `${brief(t.mean)} ± ${brief(t.deviation)}`),
        ...row("zeros", brief(t.zeros) + share(t.zeros, t.count)),
        ...(t.nans || t.infs ? row("not finite", `${t.nans} NaN, ${t.infs} infinite`) : []));
    return element("div", {class: "weight"},
        element("h3", {}, t.name), element("p", {}, `${t.kind} ${t.shape || ""}`,
            t.bytes === undefined ? "" : `, ${brief(t.bytes)}B`),
        t.numbers ? element("code", {}, t.numbers) : stats,
        t.histogram ? bars(t.histogram, t.min, t.max) : null);
}

// All that columns say of an item.
function factRows(pane, i) {
    return pane.graph.facts.flatMap((fact) => {
        const v = fact.of(i);
        if (v === null)
            return [];
        return row(fact.title, ...(Array.isArray(v) ? [bars(v)]
            : linked(pane, i, fact.text(v))));
    });
}

function nodeCard(pane, i) {
    const g = pane.graph, [path, type] = g.module(i), source = g.source(i);
    return [
        element("h2", {}, g.name(i)),
        element("p", {class: "op"}, g.target(i) || g.op(i)),
        element("dl", {},
            ...(g.shape(i) ? row("shape", element("code", {}, g.shape(i))) : []),
            ...g.args(i).flatMap(([name, text], k) => row(name || `argument ${k}`,
                ...linked(pane, i, text))),
            ...(path ? row("module", itemOfModule(pane, i, path), type ? ` ${type}` : "") : []),
            ...(g.users[i].length ? row("used by", ...list(pane, g.users[i])) : []),
            ...(g.until.has(i) ? row("needed until", itemButton(pane, g.until.get(i))) : []),
            ...factRows(pane, i)),
        source ? element("pre", {class: "source"}, source) : null,
        ...g.weights(i).map(weightCard),
    ];
}

function itemOfModule(pane, i, path) {
    const k = pane.graph.find("module:" + pane.graph.prefix(i) + path);
    return k < 0 ? path : itemButton(pane, k, path);
}

function frameCard(pane, i) {
    const g = pane.graph, ops = new Map(), seen = new Set();
    let bytes = 0;
    for (let k = i; k < g.end[i]; k++) {
        if (!g.isNode(k))
            continue;
        if (!g.isEnd(k))
            ops.set(g.op(k), (ops.get(g.op(k)) || 0) + 1);
        for (const t of g.weights(k))
            if (!seen.has(t)) {
                seen.add(t);
                bytes += t.bytes || 0;
            }
    }
    const named = [...ops].sort((a, b) => b[1] - a[1]).slice(0, 12)
        .map(([op, n]) => (n > 1 ? `${op} ×${n}` : op));
    const shapes = g.children[i] ? g.shape(g.children[i][g.children[i].length - 1]) : "";
    return [
        element("h2", {}, g.label(i)),
        element("p", {class: "op"}, g.type(i)),
        element("dl", {},
            ...(g.kind[i] === REPEAT ? row("blocks", `${g.call(i)} alike`) : []),
            ...row("nodes", String(g.countNodes(i))),
            ...(seen.size ? row("weights", `${seen.size} tensors, ${brief(bytes)}B`) : []),
            ...(shapes ? row("shape", element("code", {}, shapes)) : []),
            ...(named.length ? row("operators", named.join(", ")) : []), ...factRows(pane, i)),
        i ? element("button", {onclick: () => pane.toggle(i)},
            pane.layout.isOpen(i) ? "Close (Enter)" : "Open (Enter)") : null,
    ];
}

// What the other graph has in the place of an item.
function counterpart(pane, i) {
    const {other, items, state} = pane.viewer.across(pane, i);
    if (!other)
        return null;
    if (!items.length)
        return element("p", {class: "alone"}, `Only in ${pane.graph.title}: no counterpart in ` +
            `${other.graph.title}.`);
    return element("p", {class: "pair"}, `${state} in ${other.graph.title}: `,
        ...items.flatMap((k) => [itemButton(other, k), " "]));
}

export function showCard(host, pane) {
    const i = pane.picked, g = pane.graph;
    const node = i > 0 && g.isNode(i);
    const parts = i < 0 ? frameCard(pane, 0) : node ? nodeCard(pane, i) : frameCard(pane, i);
    clear(host, ...parts, i > 0 ? counterpart(pane, i) : null);
}
