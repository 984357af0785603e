// Headless Chromium, driven over its DevTools protocol by a pipe: Node alone is needed, of version
// 18 or later. Just what the tests of the viewer do in a page is here.

const fs = require("fs");
const path = require("path");
const {spawn} = require("child_process");

const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--remote-debugging-pipe"];
const patience = 30000; // milliseconds until something that is waited for counts as missing

function sleep(ms) {
    return new Promise((done) => setTimeout(done, ms));
}

// Keys by their names, as events carry them: [key, code, virtual key, text].
const named = {Enter: ["Enter", "Enter", 13, "\r"], Escape: ["Escape", "Escape", 27, ""],
    Tab: ["Tab", "Tab", 9, ""], ArrowLeft: ["ArrowLeft", "ArrowLeft", 37, ""],
    ArrowUp: ["ArrowUp", "ArrowUp", 38, ""], ArrowRight: ["ArrowRight", "ArrowRight", 39, ""],
    ArrowDown: ["ArrowDown", "ArrowDown", 40, ""]};

function keyOf(name) {
    const code = /^[a-z]$/i.test(name) ? `Key${name.toUpperCase()}`
        : /^[0-9]$/.test(name) ? `Digit${name}` : "";
    return named[name] || [name, code, name.toUpperCase().charCodeAt(0), name];
}

// Parts of a page that a selector finds, or the one of some number.
class Locator {
    constructor(page, selector, index = null) {
        Object.assign(this, {page, selector, index});
    }
    first() {
        return this.nth(0);
    }
    nth(index) {
        return new Locator(this.page, this.selector, index);
    }
    all(read) {
        return this.page.call(`(s) => [...document.querySelectorAll(s)].map(${read})`,
            this.selector);
    }
    async one(read, ...args) {
        const found = await this.page.call(`(s, i, ...args) => {
            const e = document.querySelectorAll(s)[i];
            return e ? [(${read})(e, ...args)] : null;
        }`, this.selector, this.index || 0, ...args);
        if (!found)
            throw new Error(`nothing in the page is ${this.selector}`);
        return found[0];
    }
    async count() {
        return (await this.all("() => 0")).length;
    }
    allTextContents() {
        return this.all("(e) => e.textContent");
    }
    focus() {
        return this.one("(e) => { e.focus(); }");
    }
    getAttribute(name) {
        return this.one("(e, name) => e.getAttribute(name)", name);
    }
}

class Page {
    constructor(browser, session, target) {
        Object.assign(this, {browser, session, target, handlers: {}});
        this.keyboard = {press: (k) => this.press(k), type: (text) => this.type(text)};
        this.mouse = {click: (x, y) => this.mouseClick(x, y, 1),
            dblclick: (x, y) => this.mouseClick(x, y, 2)};
    }
    send(method, params = {}) {
        return this.browser.send(method, params, this.session);
    }
    on(event, handler) {
        this.handlers[event] = handler;
    }
    heard(method, p) {
        const tell = (event, value) => this.handlers[event] && this.handlers[event](value);
        if (method === "Runtime.exceptionThrown")
            tell("pageerror", p.exceptionDetails.exception?.description || p.exceptionDetails.text);
        else if (method === "Runtime.consoleAPICalled")
            tell("console", {type: p.type, text: p.args.map((a) => a.value).join(" ")});
        else if (method === "Network.requestWillBeSent")
            tell("request", p.request.url);
    }

    // Calls a function, given as one or as its text, in the page; its result as JSON has it.
    async call(f, ...args) {
        const params = {expression: `(${f})(...${JSON.stringify(args)})`, returnByValue: true,
            awaitPromise: true};
        const r = await this.send("Runtime.evaluate", params);
        if (r.exceptionDetails)
            throw new Error(r.exceptionDetails.exception?.description || r.exceptionDetails.text);
        return r.result.value;
    }
    evaluate(what, ...args) {
        return typeof what === "string" ? this.call(`() => (${what})`) : this.call(what, ...args);
    }
    async waitForFunction(expression) {
        for (const began = Date.now(); !(await this.evaluate(`!!(${expression})`)); await sleep(10))
            if (Date.now() - began > patience)
                throw new Error(`${expression} did not come to hold`);
    }
    async goto(url) {
        const {errorText} = await this.send("Page.navigate", {url});
        if (errorText)
            throw new Error(`${url}: ${errorText}`);
    }
    url() {
        return this.evaluate("location.href");
    }
    title() {
        return this.evaluate("document.title");
    }
    close() {
        return this.browser.send("Target.closeTarget", {targetId: this.target});
    }

    locator(selector) {
        return new Locator(this, selector);
    }
    textContent(selector) {
        return this.locator(selector).one("(e) => e.textContent");
    }
    getAttribute(selector, name) {
        return this.locator(selector).getAttribute(name);
    }
    inputValue(selector) {
        return this.locator(selector).one("(e) => e.value");
    }
    isVisible(selector) {
        return this.locator(selector).one("(e) => e.checkVisibility ? e.checkVisibility()" +
            " : e.getClientRects().length > 0");
    }
    async fill(selector, text) {
        await this.locator(selector).one("(e) => { e.focus(); e.select(); }");
        await this.send("Input.insertText", {text});
    }
    selectOption(selector, value) {
        return this.locator(selector).one(`(e, value) => {
            const option = [...e.options].find((o) => o.value === value || o.label === value);
            e.value = option.value;
            e.dispatchEvent(new Event("input", {bubbles: true}));
            e.dispatchEvent(new Event("change", {bubbles: true}));
        }`, value);
    }
    async click(selector) {
        const [x, y] = await this.locator(selector).one(`(e) => {
            e.scrollIntoView({block: "nearest"});
            const r = e.getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2];
        }`);
        await this.mouseClick(x, y, 1);
    }
    async mouseClick(x, y, times) {
        await this.send("Input.dispatchMouseEvent", {type: "mouseMoved", x, y});
        for (let clickCount = 1; clickCount <= times; clickCount++)
            for (const type of ["mousePressed", "mouseReleased"])
                await this.send("Input.dispatchMouseEvent",
                    {type, x, y, button: "left", clickCount});
    }
    async press(combination) {
        const shift = combination.startsWith("Shift+");
        let [key, code, number, text] = keyOf(combination.replace(/^Shift\+/, ""));
        if (/^Digit\d$/.test(key)) { // a place on the keyboard, not what is written there
            code = key;
            number = key.charCodeAt(5);
            key = text = shift ? ")!@#$%^&*("[Number(key[5])] : key[5];
        }
        const event = {key, code, windowsVirtualKeyCode: number, modifiers: shift ? 8 : 0};
        await this.send("Input.dispatchKeyEvent",
            {type: text ? "keyDown" : "rawKeyDown", text, ...event});
        await this.send("Input.dispatchKeyEvent", {type: "keyUp", ...event});
    }
    async type(text) {
        for (const c of text)
            await this.press(c);
    }
    // The file that the page saves while `act` goes on.
    async download(act) {
        const folder = fs.mkdtempSync(path.join(this.browser.folder, "download-"));
        await this.browser.send("Browser.setDownloadBehavior",
            {behavior: "allow", downloadPath: folder, eventsEnabled: true});
        const done = this.browser.next("Browser.downloadProgress", (p) => p.state === "completed");
        await act();
        await done;
        return path.join(folder, fs.readdirSync(folder)[0]);
    }
}

class Browser {
    // folder: where the browser may keep what it likes.
    constructor(program, folder) {
        this.folder = folder;
        this.calls = new Map();
        this.pages = new Map();
        this.waiting = [];
        this.last = 0;
        this.child = spawn(program, [...flags, `--user-data-dir=${path.join(folder, "profile")}`],
            {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
        this.child.on("exit", (code) => this.end(new Error(`${program} ended (${code})`)));
        this.child.on("error", (e) => this.end(e));
        this.child.stdio[3].on("error", () => {});
        let rest = "";
        this.child.stdio[4].setEncoding("utf8").on("data", (chunk) => {
            const messages = (rest + chunk).split("\0");
            rest = messages.pop();
            messages.forEach((m) => this.heard(JSON.parse(m)));
        });
    }
    end(error) {
        for (const {fail} of this.calls.values())
            fail(error);
        this.calls.clear();
        this.gone = error;
    }
    heard(m) {
        const call = this.calls.get(m.id);
        this.calls.delete(m.id);
        if (call && m.error)
            call.fail(new Error(`${call.method}: ${m.error.message}`));
        else if (call)
            call.done(m.result);
        else if (this.pages.has(m.sessionId))
            this.pages.get(m.sessionId).heard(m.method, m.params);
        this.waiting = this.waiting.filter((w) => {
            const fits = w.method === m.method && w.fits(m.params);
            if (fits)
                w.done(m.params);
            return !fits;
        });
    }
    send(method, params = {}, sessionId = undefined) {
        return new Promise((done, fail) => {
            if (this.gone)
                return fail(this.gone);
            this.calls.set(++this.last, {done, fail, method});
            this.child.stdio[3].write(JSON.stringify({id: this.last, method, params, sessionId}) +
                "\0");
        });
    }
    // The next event of a kind.
    next(method, fits) {
        return new Promise((done, fail) => {
            this.waiting.push({method, fits, done});
            setTimeout(() => fail(new Error(`no ${method}`)), patience).unref();
        });
    }
    async newPage({width, height, media = []}) {
        const {targetId} = await this.send("Target.createTarget", {url: "about:blank"});
        const {sessionId} = await this.send("Target.attachToTarget", {targetId, flatten: true});
        const page = new Page(this, sessionId, targetId);
        this.pages.set(sessionId, page);
        for (const domain of ["Page", "Runtime", "Network"])
            await page.send(`${domain}.enable`);
        await page.send("Emulation.setDeviceMetricsOverride",
            {width, height, deviceScaleFactor: 1, mobile: false});
        await page.send("Emulation.setEmulatedMedia", {features: media});
        return page;
    }
    async close() {
        const ended = new Promise((done) => this.child.on("exit", done));
        this.send("Browser.close").catch(() => {});
        await ended;
    }
}

module.exports = {Browser};
