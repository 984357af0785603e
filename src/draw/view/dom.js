// Small parts of the page.

import {brief} from "./data.js";

// An element with attributes, listeners ("onclick") and children; those that are null are left out.
export function element(tag, attributes = {}, ...children) {
    const e = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes))
        if (key.startsWith("on"))
            e.addEventListener(key.slice(2), value);
        else if (value !== null && value !== false)
            e.setAttribute(key, value === true ? "" : value);
    e.append(...children.filter((c) => c !== null && c !== undefined));
    return e;
}

export function clear(host, ...children) {
    host.replaceChildren(...children.filter((c) => c !== null && c !== undefined));
}

// The same for parts of an SVG picture.
export function shape(tag, attributes = {}, ...children) {
    const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes))
        if (key.startsWith("on"))
            e.addEventListener(key.slice(2), value);
        else
            e.setAttribute(key, value);
    e.append(...children);
    return e;
}

// Bars of a histogram as an inline SVG.
export function bars(values, low, high) {
    const most = Math.max(...values, 1), n = values.length;
    const svg = shape("svg", {
        viewBox: `0 0 ${n * 10} 40`, preserveAspectRatio: "none", class: "bars", role: "img",
        "aria-label": `histogram of ${n} bins: ${values.join(" ")}`,
    }, ...values.map((v, k) => shape("rect",
        {x: k * 10 + 1, y: 40 - 38 * v / most, width: 8, height: 38 * v / most})));
    const range = low === undefined ? null
        : element("div", {class: "range"}, element("span", {}, brief(low)),
            element("span", {}, brief(high)));
    return element("div", {class: "histogram"}, svg, range);
}
