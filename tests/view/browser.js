// What the tests of the viewer stand on: pages in headless Chromium, and a count of what passed.
// $CHROMIUM is the browser.

const fs = require("fs");
const path = require("path");
const {execFileSync, spawnSync} = require("child_process");

const [build] = process.argv.slice(2);
const cfx = path.join(build, "cfx");
const out = fs.mkdtempSync(path.join(require("os").tmpdir(), "cfx-view-"));
const {Browser} = require("./chromium.js");

let passed = 0, failed = 0, browser = null;

function check(name, fine, what = "") {
    if (fine)
        passed++;
    else {
        failed++;
        console.log(`FAILED ${name} ${typeof what === "string" ? what : JSON.stringify(what)}`);
    }
}

function equal(name, got, want) {
    const a = JSON.stringify(got), b = JSON.stringify(want);
    check(name, a === b, `got ${a}, wanted ${b}`);
}

function run(...args) {
    return execFileSync(cfx, args, {encoding: "utf8"});
}

// The same where the exit status says that things differ.
function runs(...args) {
    return spawnSync(cfx, args, {encoding: "utf8"}).status;
}

// A page of the viewer, opened from the disk; any error in it is a failure.
async function open(file, hash = "", width = 1300, height = 850) {
    const page = await browser.newPage({width, height,
        media: [{name: "prefers-reduced-motion", value: "reduce"}]});
    page.on("pageerror", (stack) => check(`errors of ${path.basename(file)}`, false, stack));
    page.on("console", ({type, text}) => check("console", type !== "error", text));
    page.on("request", (url) => check("network", /^(file|blob|data):/.test(url), url));
    await page.goto(`file://${file}${hash}`);
    await page.waitForFunction("window.viewer");
    return page;
}

// Where an item is on the screen: the middle of its box.
function middle(page, anchor) {
    return page.evaluate((a) => {
        const pane = window.viewer.active, r = pane.layout.rects.get(pane.graph.find(a));
        const box = pane.canvas.getBoundingClientRect(), c = pane.camera;
        return r && [box.x + c.x + c.scale * (r.x + r.w / 2),
            box.y + c.y + c.scale * (r.y + Math.min(r.h / 2, 12))];
    }, anchor);
}

async function main(tests) {
    browser = new Browser(process.env.CHROMIUM, out);
    try {
        for (const [name, test] of Object.entries(tests))
            try {
                await test();
            } catch (e) {
                check(name, false, e.stack);
            }
    } finally {
        await browser.close();
        fs.rmSync(out, {recursive: true});
    }
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed ? 1 : 0;
}

module.exports = {check, equal, fs, main, middle, open, out, path, run, runs};
