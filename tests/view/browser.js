// What the tests of the viewer stand on: pages in headless Chromium, and a count of what passed.
//
// The browser is Debian's, the driver playwright-core, which tools/setup --tests puts in $CFX_NODE.

const fs = require("fs");
const path = require("path");
const {execFileSync, spawnSync} = require("child_process");

const [build] = process.argv.slice(2);
const cfx = path.join(build, "cfx");
const out = fs.mkdtempSync(path.join(require("os").tmpdir(), "cfx-view-"));
const {chromium} = require(path.join(process.env.CFX_NODE, "node_modules", "playwright-core"));
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"];

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
async function open(file, hash = "", options = {}) {
    const page = await browser.newPage({viewport: {width: 1300, height: 850},
        reducedMotion: "reduce", ...options});
    page.on("pageerror", (e) => check(`errors of ${path.basename(file)}`, false, e.stack));
    page.on("console", (m) => check("console", m.type() !== "error", m.text()));
    page.on("request", (r) => check("network", /^(file|blob|data):/.test(r.url()), r.url()));
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
    browser = await chromium.launch({executablePath: process.env.CHROMIUM, args: flags});
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
