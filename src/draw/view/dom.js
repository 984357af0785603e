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

// Values in a row as a filled curve; `pick` gets the place of the value that is clicked.
export function curve(values, label, pick) {
    const most = Math.max(...values, 1), n = values.length;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${n} 40`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "bars curve");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    const path = document.createElementNS(svg.namespaceURI, "path");
    const steps = values.map((v, k) => `V${(40 - 38 * v / most).toFixed(2)}H${k + 1}`);
    path.setAttribute("d", `M0 40${steps.join("")}V40Z`);
    svg.append(path);
    svg.addEventListener("click", (e) => {
        const {left, width} = svg.getBoundingClientRect();
        pick(Math.min(n - 1, Math.max(0, Math.floor(n * (e.clientX - left) / width))));
    });
    return svg;
}

// Bars of a histogram as an inline SVG.
export function bars(values, low, high) {
    const most = Math.max(...values, 1), n = values.length;
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${n * 10} 40`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("class", "bars");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `histogram of ${n} bins: ${values.join(" ")}`);
    values.forEach((v, k) => {
        const bar = document.createElementNS(svg.namespaceURI, "rect"), h = 38 * v / most;
        bar.setAttribute("x", k * 10 + 1);
        bar.setAttribute("y", 40 - h);
        bar.setAttribute("width", 8);
        bar.setAttribute("height", h);
        svg.append(bar);
    });
    const range = low === undefined ? null
        : element("div", {class: "range"}, element("span", {}, brief(low)),
            element("span", {}, brief(high)));
    return element("div", {class: "histogram"}, svg, range);
}
