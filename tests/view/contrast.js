// Contrast as WCAG 2 measures it, of everything that the page shows: 4.5 to 1 of text (1.4.3) and
// 3 to 1 of what tells parts apart (1.4.11). Measured are the elements of the page, each on what
// lies behind it, and the picture: its texts and lines, each on what was painted before it there.

const {check, equal, open, out, path, run, runs} = require("./browser.js");

// What the page has to measure with: window.contrast.
const measure = () => {
    const parse = (text) => {
        if (text.startsWith("#"))
            return [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16))
                .concat(text.length > 7 ? parseInt(text.slice(7), 16) / 255 : 1);
        const n = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
        return [n[0], n[1], n[2], n.length > 3 ? n[3] : 1];
    };
    const over = (top, below) => [0, 1, 2].map((k) => top[3] * top[k] + (1 - top[3]) * below[k])
        .concat(1);
    const light = (c) => c.slice(0, 3).map((v) => v / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
        .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
    const ratio = (a, b) => {
        const [x, y] = [light(over(a, b)), light(b)].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05);
    };
    const behind = (e) => {
        const own = e ? parse(getComputedStyle(e).backgroundColor) : [255, 255, 255, 1];
        return own[3] === 1 ? own : over(own, behind(e.parentElement));
    };
    const brief = (e) => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}` +
        (e.classList.length ? "." + [...e.classList].join(".") : "");

    // Every text of the page that is seen; [how many, those that are too weak].
    const texts = () => {
        let n = 0;
        const weak = [];
        const need = (what, colour, ground, least) => {
            n++;
            const r = ratio(colour, ground);
            if (r < least)
                weak.push([what, colour.join(" "), ground.map(Math.round).join(" "), r.toFixed(2)]);
        };
        for (const e of document.querySelectorAll("body *")) {
            const style = getComputedStyle(e), box = e.getBoundingClientRect();
            if (!box.width || !box.height || style.visibility === "hidden" ||
                e.closest("script, style, [hidden], #said"))
                continue;
            const own = [...e.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
            const svg = e instanceof SVGElement;
            if (own)
                need(brief(e), parse(svg ? style.fill : style.color), behind(e), 4.5);
            if (e.placeholder)
                need(`${brief(e)}::placeholder`,
                    parse(getComputedStyle(e, "::placeholder").color), behind(e), 4.5);
            if (e.matches("input, select, button") && parseFloat(style.borderTopWidth))
                need(`${brief(e)} border`, parse(style.borderTopColor), behind(e.parentElement), 3);
        }
        return [n, weak];
    };

    // The same of the picture, by its SVG.
    const picture = (svg) => {
        let n = 0;
        const weak = [], painted = [];
        const holds = (r, x, y) => x >= r.x && x <= r.x + r.w && y >= r.y && y <= r.y + r.h;
        const under = (x, y) => painted.reduce((below, r) =>
            (holds(r, x, y) ? over(r.fill, below) : below), [255, 255, 255, 1]);
        for (const e of new DOMParser().parseFromString(svg, "image/svg+xml").documentElement
            .querySelectorAll("rect, text, path")) {
            const get = (k) => parseFloat(e.getAttribute(k)), fill = e.getAttribute("fill");
            if (e.tagName === "text") {
                const ground = under(get("x") + 2, get("y") - 3), colour = parse(fill);
                n++;
                if (ratio(colour, ground) < 4.5)
                    weak.push([e.textContent, fill, ground.map(Math.round).join(" "),
                        ratio(colour, ground).toFixed(2)]);
                continue;
            }
            const line = e.getAttribute("stroke"), page = painted[0] && painted[0].fill;
            if (line && page) {
                n++;
                const r = ratio(parse(line), page);
                if (r < 3)
                    weak.push([e.tagName, line, page.join(" "), r.toFixed(2)]);
            }
            if (e.tagName === "rect" && fill !== "none")
                painted.push({x: get("x"), y: get("y"), w: get("width"), h: get("height"),
                    fill: parse(fill)});
        }
        return [n, weak];
    };
    window.contrast = {texts, picture};
};

module.exports = ({spineFile, model}) => {
    // What can be seen of a page in a state, in both themes.
    async function look(page, state) {
        let count = 0;
        for (const dark of [false, true]) {
            await page.evaluate((d) => viewer.setDark(d), dark);
            const [n, weak] = await page.evaluate("contrast.texts()");
            const [m, faint] = await page.evaluate("contrast.picture(viewer.active.svg())");
            count += n + m;
            equal(`${state}, ${dark ? "dark" : "light"}: elements that are hard to read`, weak, []);
            equal(`${state}, ${dark ? "dark" : "light"}: parts of the picture`, faint, []);
        }
        return count;
    }

    return {
        async everythingStandsOut() {
            const profile = path.join(out, "contrast.json");
            const file = path.join(out, "contrast.html");
            run("run", model("seed_mlp"), "--profile", profile, "--runs", "1");
            run("draw", model("seed_mlp"), "-o", file, "--with", profile);
            let count = 0;
            for (const [name, width] of [["profile", 1300], ["narrow", 420]]) {
                const page = await open(file, "#at=linear", width, 850);
                await page.evaluate(measure);
                count += await look(page, name);
                for (const by of ["", "FLOPs", "dtype"]) {
                    await page.evaluate((b) => viewer.setOverlay(b), by);
                    count += await look(page, `${name} by ${by || "family"}`);
                }
                await page.keyboard.press("/");
                await page.keyboard.type("li");
                count += await look(page, `${name}, searching`);
                await page.keyboard.press("Escape");
                await page.keyboard.press("?");
                count += await look(page, `${name}, keys`);
                await page.close();
            }
            const spine = await open(spineFile());
            await spine.evaluate(measure);
            count += await look(spine, "a transformer");
            await spine.evaluate("viewer.active.layout.openSome(400, 0)");
            count += await look(spine, "opened");
            await spine.close();
            const two = path.join(out, "contrast2.html"), other = path.join(out, "contrast.pt2");
            run("opt", model("seed_mlp"), "-o", other, "--extract", "..relu");
            runs("compare", model("seed_mlp"), other, "-o", two);
            const pair = await open(two);
            await pair.evaluate(measure);
            count += await look(pair, "two programs");
            await pair.close();
            check("there was much to look at", count > 1500, count);
        },
    };
};
