// Files keep their bytes, and nobody's change is lost unseen.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { appendFileSync, createReadStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32, deflateSync } from "node:zlib";
import { api, context, evil, key, look, patience, run, step, url } from "./page.mjs";

/** A picture of one colour. A large one is small as a file. */
function png(width, height) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const ends = Buffer.alloc(8);
    ends.writeUInt32BE(data.length, 0);
    ends.writeUInt32BE(crc32(body), 4);
    return Buffer.concat([ends.subarray(0, 4), body, ends.subarray(4)]);
  };
  const head = Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]); // one bit a pixel, grey
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  return Buffer.concat([Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.alloc((Math.ceil(width / 8) + 1) * height))), chunk("IEND", Buffer.alloc(0))]);
}

// What a file may try: run a script, ask somebody, or lead to where it should not.
const script = `window.pwned=1;fetch("http://canary.test/")`;
const markup = `<img src=x onerror='${script}'><script>${script}</script><iframe srcdoc="<script>parent.pwned=1</script>"></iframe><a href="javascript:${script}">a</a>`;
const svg = `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="30" onload="${script.replaceAll('"', "&quot;")}"><script>${script}</script><image href="http://canary.test/a.png"/><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="/canary"/></foreignObject><rect width="40" height="30"/></svg>`;
const notebook = (...cells) => JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata: { widgets: markup }, cells });
const cell = (...outputs) => ({ cell_type: "code", execution_count: 1, metadata: {}, source: ["print(1)\n", "# \u202e"], outputs });
const data = (of) => ({ output_type: "display_data", metadata: {}, data: of });

/** Files, and what the view of each shows, or its source where it has no view. */
const corpus = [
  { name: "a.svg", data: svg, picture: "40 \u00d7 30" },
  { name: "bomb.svg", data: `<!DOCTYPE svg [<!ENTITY a "aaaaaaaaaa"><!ENTITY b SYSTEM "http://canary.test/">]>${svg}&b;`, shows: ["cannot draw"] },
  { name: "small.png", data: png(40, 30), picture: "40 \u00d7 30" },
  { name: "named.txt", data: png(40, 30), picture: "40 \u00d7 30" },
  { name: "large.png", data: png(20_000, 20_000), shows: ["more than 50 million pixels"] },
  { name: "heavy.png", data: Buffer.concat([png(40, 30), Buffer.alloc(2 << 20)]), picture: "40 \u00d7 30" },
  { name: "broken.png", data: png(40, 30).subarray(0, 20), shows: ["cannot draw"] },
  { name: "no.png", data: markup, source: "<img" },
  { name: `${evil.replace(".exe", "")}.png`, data: png(40, 30), picture: "40 \u00d7 30" },
  { name: `${evil}.md`, data: `# ${evil}\n`, shows: ["<img src=x onerror=", "\u27e8202e\u27e9gnp.exe"] },
  {
    name: "a.md",
    data: `# Title\n\n${markup}\n\n<div onclick="${script}">x</div>\n\n[script](javascript:${script}) [script](JaVaScRiPt&colon;alert(1)) [data](data:text/html;base64,PHNjcmlwdD4=) [file](file:///etc/passwd) [near](/v1/canary) [<b>x</b>](http://a.test/"onmouseover="pwned=1)\n\n[good](https://a.test/x) <mail@a.test> ![pic" onerror="pwned=1](http://canary.test/a.png) ![near](/canary.png)\n\n| a | b |\n| - | - |\n| \u202e1 | ${markup.replaceAll("|", "")} |\n\n- one\n- two\n\n\`\`\`html"><script>\n${markup}\n\`\`\`\n\n[ref]\n\n[ref]: javascript:alert(1)\n`,
    shows: ["Title", "<script>", 'Picture: pic" onerror="pwned=1 (http://canary.test/a.png)', "Picture: near (/canary.png)", "\u27e8202e\u27e91", "two"],
    links: ["http://a.test/%22onmouseover=%22pwned=1", "https://a.test/x", "mailto:mail@a.test"],
  },
  { name: "deep.md", data: `${">".repeat(50_000)} x\n\n${"[".repeat(50_000)}${"*a **b ".repeat(20_000)}`, shows: ["too long or too deeply nested"] },
  { name: "emphatic.md", data: "*a ".repeat(5000) + "b* ".repeat(5000), shows: ["too long or too deeply nested"] },
  { name: "a.html", data: `<!doctype html><meta http-equiv=refresh content="0;url=http://canary.test/">${markup}<form action=//canary.test><button autofocus onfocus="${script}">b</button></form><p>a page</p>`, framed: true, shows: ["a page"] },
  { name: "a.csv", data: `name,"a ""quoted"", field",html\r\n=cmd|' /C calc'!A0,"two\nlines",${markup.replaceAll(",", "").replaceAll('"', "'")}\r\n@SUM(1),\u202eb,javascript:alert(1)\n${"x,y,z\n".repeat(30_000)}last,"unclosed`, shows: ['a "quoted", field', "=cmd|' /C calc'!A0", "two\u240alines", "<img src=x onerror=", "\u27e8202e\u27e9b"], rows: 30_004 },
  { name: "a.tsv", data: `a\tb,c\n1\t2\n`, shows: ["b,c"] },
  {
    name: "a.ipynb",
    data: notebook(
      { cell_type: "markdown", metadata: {}, source: ["# Read\n", markup, " [x](javascript:alert(1))"] },
      cell({ output_type: "stream", name: "stdout", text: ["\u001b[31mred\u001b[0m\n", "\u202eprinted"] }, { output_type: "error", ename: "E", evalue: "v", traceback: ["\u001b[1mTraceback", markup] }),
      cell(data({ "text/html": markup }), data({ "application/javascript": script }), data({ "image/svg+xml": svg }), data({ "image/png": png(4, 3).toString("base64") }), data({ "image/png": "!" }), data({ "text/html": markup, "text/plain": "plain instead" })),
    ),
    shows: ["Read", "red\n\u27e8202e\u27e9printed", "Traceback", "text/html, as text", "application/javascript, as text", "40 \u00d7 30", "4 \u00d7 3", "cannot be read", "plain instead"],
  },
  { name: "odd.ipynb", data: `{"cells":[null,1,{"cell_type":"code","outputs":[{"data":{"a/b":${"[".repeat(100_000)}${"]".repeat(100_000)}}}]},{"cell_type":"code","outputs":[null,{"data":{"__proto__":["x"],"text/plain":{"a":1}}}],"source":{}},{"cell_type":"markdown","source":[1,"ok text"]}]}`, shows: ["too deeply nested", "ok text"] },
  { name: "no.ipynb", data: "<script>", shows: ["no notebook"] },
  { name: "a.js", data: `${script}//\u202e\u2066 \u200b`, source: "\u27e8202e\u27e9\u27e82066\u27e9 \u27e8200b\u27e9" },
];

/** What must be nowhere in the page, whatever a file says. */
const traces = () =>
  [...document.querySelectorAll("body *")].flatMap((one) => {
    const wrong = [];
    if (one.matches("iframe") && one.getAttribute("sandbox") === "" && one.getAttribute("src").includes("/fs/read?as=page&")) return [];
    if (one.matches("script, iframe, frame, object, embed, base, meta, link, style, form[action]")) wrong.push(one.outerHTML);
    if (one.matches("img[src]") && !one.src.startsWith("blob:")) wrong.push(one.outerHTML);
    if (one.tagName === "A" && !/^(https?|mailto):$/.test(one.protocol)) wrong.push(one.outerHTML);
    if (one.tagName === "A" && one.host !== location.host && one.rel !== "noopener noreferrer") wrong.push(one.outerHTML);
    for (let depth = 0, up = one; up; up = up.parentElement) if (++depth > 150) return ["too deep"];
    if ([...one.attributes].some(({ name }) => name.startsWith("on"))) wrong.push(one.outerHTML);
    return wrong;
  });

/** The SHA-256 of a file that is not to be in memory. */
const sha256 = async (path) => {
  const sum = createHash("sha256");
  for await (const piece of createReadStream(path)) sum.update(piece);
  return sum.digest("hex");
};

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base" });
  const code = "def f(a):\n    # \u202e hidden\n    return 'x' + str(1)\n" + "# more\n".repeat(60);
  const shell = async (cmd) => (await api("POST", `/v1/sessions/${session.id}/exec`, { cmd })).output;
  const put = async (path, body) => {
    const answer = await fetch(`${url}/v1/sessions/${session.id}/fs/raw?path=${encodeURIComponent(path)}`, { method: "PUT", headers: { Authorization: `Bearer ${key}` }, body });
    assert.ok(answer.ok, `${path}: ${await answer.text()}`);
  };
  await shell(`printf 'caf\\351' > latin; printf '\\357\\273\\277a\\r\\nb\\r\\n' > marked; printf 'a\\r\\nb\\n' > mixed; echo one > shared; truncate -s 20M big; printf END >> big`);
  await put("code.py", code);
  const file = (name) => page.getByRole("treeitem", { name, exact: true });
  const open = (name) => file(name).dblclick();
  /** asksToLeave waits until the browser would ask before it leaves the page, or would not. */
  const asksToLeave = (wanted = true) => page.waitForFunction((wanted) => dispatchEvent(new Event("beforeunload", { cancelable: true })) !== wanted, wanted);
  const close = () => page.getByRole("button", { name: "Close" }).click();
  const text = page.getByLabel("Contents", { exact: true });
  const save = page.getByRole("button", { name: /^Save/ });
  const saved = page.getByRole("button", { name: "Saved", exact: true });
  const type = async (what) => {
    await text.press("ControlOrMeta+a");
    await page.keyboard.type(what);
  };
  await page.goto(`${url}/sessions/${session.id}?tab=files`);

  await step("what is not UTF-8 is shown as bytes", async () => {
    await open("latin");
    await page.getByText("63 61 66 e9").waitFor();
    assert.equal(await text.count() + await save.count(), 0);
    await look(page, "hex");
    const loading = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download", exact: true }).click();
    assert.equal(readFileSync(await (await loading).path()).toString("hex"), "636166e9");
    await close();
  });

  await step("a byte order mark and line ends are kept", async () => {
    await open("marked");
    await type("a\nc\n");
    await save.click();
    await page.getByLabel("Changes").getByText("b", { exact: true }).waitFor();
    await save.click();
    await saved.waitFor();
    assert.equal((await shell("od -An -tx1 marked")).trim(), "ef bb bf 61 0d 0a 63 0d 0a");
    await close();
    await open("mixed");
    await page.getByText("end in several ways").waitFor();
    assert.equal(await save.count(), 0);
    await close();
  });

  await step("the end of a large file is read alone", async () => {
    await open("big");
    await page.getByText("larger than 1.0 MiB is not edited").waitFor();
    await page.getByLabel("Offset").fill(String(20 << 20));
    await page.getByRole("button", { name: "Go", exact: true }).click();
    await page.getByText("45 4e 44").waitFor();
    assert.ok((await page.locator("[aria-label=Bytes] .absolute").count()) < 100);
    await close();
  });

  await step("the keyboard saves, and leaves the text", async () => {
    await open("code.py");
    await text.getByText("def", { exact: true }).waitFor(); // a word of its own only when it has a colour
    await text.press("ControlOrMeta+f");
    await page.keyboard.type("hidden");
    await look(page, "search");
    await page.keyboard.press("Escape");
    await page.getByLabel("Find").waitFor({ state: "detached" });
    await text.press("ControlOrMeta+End");
    await page.keyboard.type("\tpass");
    await asksToLeave();
    await page.keyboard.press("ControlOrMeta+s");
    await page.getByLabel("Changes").getByText("unchanged lines").waitFor();
    await look(page, "changes");
    assert.equal(await shell("cat code.py"), code, "nothing is written before it was seen");
    await page.getByRole("button", { name: "Back" }).click();
    await page.keyboard.press("ControlOrMeta+z");
    await asksToLeave(false);
    assert.ok(await save.isDisabled(), "the history is kept, and what is as before needs no save");
    await page.keyboard.type("pass");
    await page.keyboard.press("ControlOrMeta+s");
    await page.getByLabel("Changes").waitFor();
    await page.keyboard.press("ControlOrMeta+s");
    await saved.waitFor();
    assert.equal(await shell("cat code.py"), `${code}pass`);
    await text.focus();
    await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    assert.notEqual(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Contents");
    await look(page, "editor");
    await type("lost");
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Leave" }).click();
    await text.waitFor({ state: "detached" });
  });

  await step("another's change is shown, also after a save", async () => {
    const theirs = page.getByLabel("Theirs and yours");
    await open("shared");
    await type("mine\n");
    await save.click();
    await save.click();
    await saved.waitFor();
    await shell("echo theirs > shared");
    await type("mine again\n");
    await save.click();
    await save.click();
    await theirs.getByText("theirs", { exact: true }).waitFor();
    await theirs.getByText("mine again").waitFor();
    assert.equal(await shell("cat shared"), "theirs\n");
    await look(page, "meanwhile");
    await page.getByRole("button", { name: "Keep my text" }).click();
    await shell("echo third > shared");
    await save.click();
    await save.click();
    await theirs.getByText("third", { exact: true }).waitFor();
    assert.equal(await shell("cat shared"), "third\n");
    await page.getByRole("button", { name: "Keep my text" }).click();
    await save.click();
    await save.click();
    await saved.waitFor();
    assert.equal(await shell("cat shared"), "mine again\n");
    await type("lost");
    await shell("printf '\\377' > shared");
    await save.click();
    await save.click();
    await page.getByText("no text any more").waitFor();
    await page.getByRole("button", { name: "Take what is there" }).click();
    await page.getByText("00000000").waitFor();
    assert.equal(await text.count(), 0);
    await close();
  });

  await step("what is typed while a save is under way is kept", async () => {
    let go;
    const held = new Promise((done) => (go = done));
    await page.route("**/fs/raw*", async (route) => (await held, await route.continue()), { times: 1 });
    await shell("echo one > shared");
    await open("shared");
    await type("first");
    await save.click();
    const sent = page.waitForRequest(/fs\/raw/);
    await save.click();
    await sent;
    await page.getByRole("button", { name: "Back" }).click();
    await text.press("ControlOrMeta+End");
    await page.keyboard.type(" second");
    const answered = page.waitForResponse(/fs\/raw/);
    go();
    await (await answered).finished();
    assert.equal(await shell("cat shared"), "first");
    await asksToLeave();
    await save.click();
    await save.click();
    await saved.waitFor();
    assert.equal(await shell("cat shared"), "first second");
    await close();
  });

  await step("Back asks before it loses a text", async () => {
    await page.getByRole("tab", { name: "about" }).click();
    await page.getByRole("tab", { name: "files" }).click();
    await open("shared");
    await type("unsaved");
    await asksToLeave();
    const back = () => page.evaluate(() => history.back());
    await back();
    await page.getByRole("heading", { name: "Leave without saving?" }).waitFor();
    await page.getByRole("button", { name: "Keep it" }).click();
    await page.waitForURL(/tab=files/);
    await text.getByText("unsaved").waitFor();
    await back();
    await page.getByRole("button", { name: "Leave", exact: true }).click();
    await page.waitForURL(/tab=about/);
    assert.equal(await shell("cat shared"), "first second");
    await page.getByRole("tab", { name: "files" }).click();
    await file("shared").waitFor();
  });

  await step("neither a gap in the events nor a failed request takes a text away or hides a change", async () => {
    // The events of the page are what this step says. Each answer has some, and ends.
    const asked = [];
    let arrived = () => {};
    const events = /\/v1\/events(\?|$)/;
    await page.route(events, (route) => (asked.push(route), arrived()));
    const tell = async (event) => {
      while (asked.length === 0) await new Promise((next) => (arrived = next));
      await asked.shift().fulfill({ contentType: "text/event-stream", body: `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n` });
    };
    const notes = (number) => page.waitForFunction((number) => document.querySelectorAll("main [role=alert]").length === number, number);
    const gap = { type: "gap", reason: "slow", reload: ["session"] };
    await page.reload();
    await tell({ type: "ready" });
    await open("shared");
    await type("mine\n");
    await shell("echo theirs > shared");
    const again = [];
    page.on("request", (request) => /auth\/session|fs\/(stat|read)/.test(request.url()) && again.push(request.url()));
    const broken = [`${url}/v1/sessions/${session.id}`, `${url}/v1/auth/session`];
    for (const one of broken) await page.route(one, (route) => route.fulfill({ status: 500, json: { error: "not now", code: "internal" } }));
    await tell(gap);
    await notes(2); // of the session and of its files
    await text.getByText("mine").waitFor();
    for (const one of broken) await page.unroute(one);
    await tell(gap);
    await notes(0);
    assert.deepEqual(again, []);
    await save.click();
    await save.click();
    await page.getByLabel("Theirs and yours").getByText("theirs", { exact: true }).waitFor();
    assert.equal(await shell("cat shared"), "theirs\n");
    await page.getByRole("button", { name: "Take what is there" }).click();
    await close();
    await page.unroute(events);
    await page.reload();
    await file("shared").waitFor();
  });

  await step("what changes before the page is told of changes is seen", async () => {
    let go;
    const held = new Promise((done) => (go = done));
    await page.route("**/fs/watch*", async (route) => (await held, await route.continue()), { times: 1 });
    await page.reload();
    await file("shared").waitFor();
    await shell("echo 1 > early");
    go();
    await file("early").waitFor();
  });

  await step("where changes are not followed the page says so", async () => {
    await page.route("**/fs/watch*", (route) => route.fulfill({ status: 413, json: { error: "there are more than 8192 directories", code: "too_large" } }));
    await page.reload();
    const said = page.getByText("Changes are not followed here");
    await said.waitFor();
    await look(page, "unwatched");
    await shell("echo 1 > unseen");
    await page.getByRole("button", { name: "Reload" }).click();
    await file("unseen").waitFor();
    await page.unroute("**/fs/watch*");
    await page.getByRole("button", { name: "Reload" }).click();
    await said.waitFor({ state: "detached" });
    await shell("rm unseen");
    await file("unseen").waitFor({ state: "detached" });
  });

  await step("a file that was deleted meanwhile is made anew if that is wanted", async () => {
    const gone = page.getByText("The file was deleted meanwhile");
    await shell("echo old > brief");
    await open("brief");
    await type("kept\n");
    await shell("rm brief");
    await save.click();
    await save.click();
    await gone.waitFor();
    await look(page, "deleted");
    await page.getByRole("button", { name: "Back to the text" }).click();
    await text.getByText("kept").waitFor();
    await save.click();
    await save.click();
    await gone.waitFor();
    await shell("echo other > brief");
    await page.getByRole("button", { name: "Make it anew" }).click();
    await page.getByLabel("Theirs and yours").getByText("other", { exact: true }).waitFor();
    assert.equal(await shell("cat brief"), "other\n", "what is new there is not replaced unseen");
    await page.getByRole("button", { name: "Keep my text" }).click();
    await shell("rm brief");
    await save.click();
    await save.click();
    await gone.waitFor();
    await page.getByRole("button", { name: "Make it anew" }).click();
    await saved.waitFor();
    assert.equal(await shell("cat brief"), "kept\n");
    await close();
  });

  await step("nothing in a file runs, asks or leads away", async () => {
    const asked = [];
    context.on("request", (request) => /canary/.test(request.url()) && asked.push(request.url()));
    for (const one of corpus) await put(one.name, one.data);
    await page.reload();
    const dialog = page.getByRole("dialog");
    for (const { name, shows = [], picture, source, links, rows, framed } of corpus) {
      await open(`${name.replace("\u202e", "\u27e8202e\u27e9")}`);
      const pane = framed ? dialog.frameLocator("iframe").locator("body") : dialog.getByLabel(source ? "Contents" : /^(View|Table)$/).first();
      for (const what of [...shows, picture, source].filter(Boolean)) await pane.getByText(what).first().waitFor().catch(() => assert.fail(`${name} does not show ${what}`));
      const view = dialog.getByRole("button", { name: "View", exact: true });
      assert.equal(await view.count(), source ? 0 : 1, `${name} has ${source ? "a" : "no"} view`);
      if (rows) assert.deepEqual([await pane.getAttribute("aria-rowcount"), (await pane.getByRole("row").count()) < 100], [String(rows), true]);
      if (links) assert.deepEqual(await dialog.locator("a[target]").evaluateAll((all) => all.map((a) => a.href)), links);
      assert.deepEqual(await page.evaluate(traces), [], name);
      if (!source) {
        await dialog.getByRole("button", { name: /^(Source|Bytes)$/ }).click();
        await dialog.getByLabel(/^(Contents|Bytes)$/).waitFor();
        assert.deepEqual(await page.evaluate(traces), [], `the source of ${name}`);
      }
      await close();
    }
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.deepEqual(asked, []);
  });

  await step("a page of HTML is drawn in a frame, and reaches nobody", async () => {
    let connections = 0;
    let sent = "";
    const canary = createServer((socket) => {
      connections++;
      socket.on("data", (data) => (sent += data)).on("error", () => {});
    });
    await new Promise((listening) => canary.listen(0, "127.0.0.1", listening));
    const at = `http://127.0.0.1:${canary.address().port}`;
    const hints = ["preconnect", "prefetch", "prerender", "stylesheet", "icon", "modulepreload", "manifest"].map((rel) => `<link rel=${rel} href=${at}/${rel}>`).join("");
    await put(
      "report.html",
      `<!doctype html><html><head><title>t</title>${hints}<meta http-equiv=refresh content="0;url=${at}/refresh"><base href=${at}/base/><style>@import "${at}/import"; h1 { color: rgb(1, 2, 3); background: url(${at}/css) } @font-face { font-family: f; src: url(${at}/font) }</style></head>
<body style="font-family: f"><h1>A report</h1><table><tr><td>1</td></tr></table><img id=inline src="data:image/png;base64,${png(4, 3).toString("base64")}"><img src=${at}/img srcset="${at}/set 2x"><video poster=${at}/poster src=${at}/video></video><object data=${at}/object></object><embed src=${at}/embed><iframe src=${at}/iframe></iframe><script src=${at}/script></script><input type=image src=${at}/input>
<svg><style><p><link rel=preconnect href=${at}/svg></p></style><image href=${at}/image /></svg><noscript><link rel=preconnect href=${at}/noscript></noscript>
<script>document.body.innerHTML = "scripted"; fetch("${at}/fetch"); parent.pwned = 1; top.location = "${at}/top"</script><form action=${at}/form><button>send</button></form><p><a href=${at}/link>a link</a> <a target=_top href=${at}/link>top</a> <a target=_blank href=${at}/link>blank</a></p></body></html>`,
    );
    await open("report.html");
    const frame = page.frameLocator("iframe[sandbox='']");
    await frame.getByRole("heading", { name: "A report" }).waitFor();
    assert.equal(await frame.locator("h1").evaluate((h1) => getComputedStyle(h1).color), "rgb(1, 2, 3)", "its own styles hold");
    assert.equal(await frame.locator("#inline").evaluate((img) => img.naturalWidth), 4, "pictures within it are drawn");
    await look(page, "view-page");
    for (const name of ["send", "top", "blank"]) await frame.getByText(name, { exact: true }).click();
    await page.waitForTimeout(1000);
    assert.equal(connections, 0);
    await frame.getByText("a link", { exact: true }).click();
    await page.waitForTimeout(1000);
    assert.deepEqual([sent, await page.evaluate(() => window.pwned), context.pages().length], ["", undefined, 1]);
    assert.ok(page.url().startsWith(url), "the console is still there");
    await close();
    canary.close();
  });

  await step("a view shows the text as it is edited", async () => {
    await open("a.tsv");
    await page.getByRole("button", { name: "Source", exact: true }).click();
    await type("x");
    await page.getByRole("button", { name: "View", exact: true }).click();
    await page.getByText("0 rows, 1 columns").waitFor();
    await page.getByRole("button", { name: "Source", exact: true }).click();
    await page.keyboard.press("ControlOrMeta+z"); // it has the focus, and its history
    await page.getByRole("button", { name: /^Save/, disabled: true }).waitFor();
    await close();
  });

  await step("each view is accessible and fits", async () => {
    for (const name of ["a.md", "a.csv", "a.ipynb"]) {
      await open(name);
      await page.getByRole("button", { name: "View", exact: true }).waitFor();
      await page.getByLabel("Loading").waitFor({ state: "detached" });
      await look(page, `view-${name}`);
      await close();
    }
  });

  const dir = mkdtempSync(join(tmpdir(), "files-"));
  const tree = page.getByRole("tree", { name: "Files" });
  const active = tree.locator("[aria-selected=true]");
  /** chosen waits until the row of a name is the active one. */
  const chosen = (name) => tree.locator(`[aria-selected=true][aria-label="${name}"]`).waitFor();
  const dialog = page.getByRole("dialog");
  const upload = page.getByLabel("Upload", { exact: true });
  const uploads = page.getByRole("region", { name: "Uploads" });
  const network = await page.context().newCDPSession(page);
  await network.send("Network.enable");
  const throttle = (uploadThroughput) => network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput });
  /** down saves what a link leads to, and gives the path of it. */
  const down = async (name) => {
    const loading = page.waitForEvent("download");
    await page.getByRole("link", { name, exact: true }).click();
    return (await loading).path();
  };

  await step("folders and files are made, renamed and deleted by the keyboard", async () => {
    await tree.focus();
    await page.keyboard.press("Home");
    await page.getByRole("button", { name: "New folder" }).click();
    await dialog.getByLabel("Name").fill("a/b");
    await page.keyboard.press("Enter");
    await dialog.getByText("no slash in it").waitFor();
    await dialog.getByLabel("Name").fill("new");
    await page.keyboard.press("Enter");
    await file("new").waitFor();
    await chosen("new");
    await page.getByRole("button", { name: "New file" }).click();
    await dialog.getByText("New file in new").waitFor();
    await dialog.getByLabel("Name").fill(`${evil.replaceAll("/", "")}.txt`);
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await tree.locator("[aria-selected=true][aria-level='2']").waitFor();
    assert.match(await active.innerText(), /^<img src=x.*\u27e8202e\u27e9/);
    await look(page, "tree");
    await tree.focus();
    await page.keyboard.press("F2");
    await dialog.getByLabel("Name").fill("one.txt");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await chosen("one.txt");
    await tree.focus();
    await page.keyboard.press("ArrowLeft");
    await chosen("new");
    await page.keyboard.press("F2");
    await dialog.getByLabel("Name").fill("latin");
    await page.keyboard.press("Enter");
    await dialog.getByRole("alert").getByText("exists").waitFor();
    await dialog.getByLabel("Name").fill("renamed");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    await chosen("renamed");
    await file("one.txt").waitFor(); // it is open still
    assert.equal((await shell("find new renamed 2>/dev/null | sort")).trim(), "renamed\nrenamed/one.txt");
    await tree.focus();
    await page.keyboard.press("ArrowLeft");
    await tree.locator("[aria-label=renamed][aria-expanded=false]").waitFor();
    await page.keyboard.press("Enter");
    await page.keyboard.press("ArrowRight");
    await chosen("one.txt");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Delete");
    await dialog.getByText("all that is in it").waitFor();
    await look(page, "delete");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await file("renamed").waitFor({ state: "detached" });
    assert.equal((await shell("ls -d renamed 2>&1 | grep -c 'No such'")).trim(), "1");
  });

  await step("what programs change shows by itself", async () => {
    await shell("echo 1 > appears");
    await file("appears").waitFor();
    await shell("mv appears moved && mkdir -p new/deep && echo 2 > new/deep/below");
    await file("moved").waitFor();
    await file("appears").waitFor({ state: "detached" });
    await shell("rm moved");
    await file("moved").waitFor({ state: "detached" });
  });

  await step("a directory of 10,000 entries", async () => {
    await shell("mkdir many && (cd many && seq -f 'f%05g' 10000 | xargs touch)");
    await page.reload();
    await file("many").locator("bdi").click();
    await file("f00001").waitFor();
    assert.equal(await file("f00001").getAttribute("aria-setsize"), "10000");
    await tree.focus();
    await page.keyboard.press("End");
    await page.keyboard.press("m");
    await chosen("many");
    const begun = Date.now();
    for (let n = 0; n < 50; n++) await page.keyboard.press("PageDown");
    const took = Date.now() - begun;
    console.log(`50 pages down took ${took} ms`);
    assert.ok(took < 30_000);
    const rows = await page.getByRole("treeitem").count();
    assert.ok(rows > 10 && rows < 100, `${rows} rows are in the page`);
    await active.waitFor();
    await page.keyboard.press("ArrowLeft");
    await chosen("many");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await file("many").getAttribute("aria-expanded"), "false");
  });

  await step("256 MiB go up and come down", async () => {
    const large = join(dir, "large");
    for (let n = 0; n < 16; n++) appendFileSync(large, randomBytes(16 << 20));
    await page.evaluate(() => {
      window.parts = new Set();
      new MutationObserver(() => document.querySelectorAll("[role=progressbar]").forEach((bar) => window.parts.add(Number(bar.getAttribute("aria-valuenow"))))).observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter: ["aria-valuenow"] });
    });
    await file("marked").click(); // what is uploaded comes beside it
    await throttle(100 << 20); // or the browser is done before it has told anything
    const memory = async () => {
      const { usedSize, backingStorageSize = 0 } = await network.send("Runtime.getHeapUsage");
      return usedSize + backingStorageSize;
    };
    await network.send("HeapProfiler.collectGarbage"); // what the steps before have left
    const before = await memory();
    await upload.setInputFiles(large);
    const begun = Date.now();
    await uploads.getByText("1 uploaded", { exact: true }).waitFor();
    console.log(`256 MiB went up in ${Date.now() - begun} ms`);
    const parts = await page.evaluate(() => [...window.parts].filter((part) => part > 0 && part < 100));
    assert.ok(parts.length >= 3 && parts.every((part, at) => at === 0 || part > parts[at - 1]), `the progress was ${parts}`);
    await network.send("HeapProfiler.collectGarbage");
    const more = (await memory()) - before;
    assert.ok(more < 64 << 20, `the page has ${more} bytes more in memory`);
    const want = await sha256(large);
    assert.equal((await shell("sha256sum large | cut -d' ' -f1")).trim(), want);
    await file("large").click();
    assert.equal(await sha256(await down("Download")), want);
    await uploads.getByRole("button", { name: "Clear" }).click();
    await uploads.waitFor({ state: "detached" });
  });

  await step("a cancelled upload leaves nothing", async () => {
    await throttle(4 << 20);
    await shell("rm large");
    await upload.setInputFiles(join(dir, "large"));
    await uploads.getByText("/s").first().waitFor();
    await page.waitForFunction(() => Number(document.querySelector("[role=progressbar]")?.getAttribute("aria-valuenow")) > 0);
    await look(page, "uploading");
    await asksToLeave();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("dialog").getByText("Uploads that are under way end").waitFor();
    await page.getByRole("button", { name: "Stay" }).click();
    await uploads.getByRole("button", { name: "Cancel large" }).click();
    await uploads.waitFor({ state: "detached" });
    await asksToLeave(false);
    for (const end = Date.now() + patience; ; ) {
      const left = (await shell("ls -A | grep -e '^large$' -e '^.sandkasten-'")).trim();
      if (left === "") break;
      assert.ok(Date.now() < end, `there is ${left}`);
      await page.waitForTimeout(100);
    }
    await throttle(-1);
  });

  await step("a file that is there is only replaced if that is wanted", async () => {
    await shell("echo theirs > shared");
    writeFileSync(join(dir, "shared"), "uploaded\n");
    await upload.setInputFiles(join(dir, "shared"));
    await uploads.getByText("Something of this name is there").waitFor();
    assert.equal(await shell("cat shared"), "theirs\n");
    await look(page, "exists");
    await uploads.getByRole("button", { name: "Replace" }).click();
    await uploads.getByText("1 uploaded", { exact: true }).waitFor();
    assert.equal(await shell("cat shared"), "uploaded\n");
    writeFileSync(join(dir, "x"), "x");
    await upload.setInputFiles([join(dir, "shared"), join(dir, "x")]);
    await uploads.getByText("2 uploaded", { exact: true }).waitFor();
    await uploads.getByRole("button", { name: "Dismiss shared" }).click();
    await uploads.getByRole("button", { name: "Clear" }).click();
    await uploads.waitFor({ state: "detached" });
  });

  await step("an upload that breaks can be tried again", async () => {
    await page.route("**/fs/raw*", (route) => route.abort(), { times: 1 });
    await upload.setInputFiles({ name: "again", mimeType: "text/plain", buffer: Buffer.from("again\n") });
    await uploads.getByRole("alert").getByText("try again").waitFor();
    await uploads.getByRole("button", { name: "Try again" }).click();
    await uploads.getByText("1 uploaded", { exact: true }).waitFor();
    assert.equal(await shell("cat again"), "again\n");
    await uploads.getByRole("button", { name: "Clear" }).click();
    await uploads.waitFor({ state: "detached" });
  });

  await step("folders go up and come down", async () => {
    mkdirSync(join(dir, "up/deep"), { recursive: true });
    writeFileSync(join(dir, "up/deep/a"), "a\n");
    writeFileSync(join(dir, "up/b"), "b\n");
    await page.getByLabel("Upload folder").setInputFiles(join(dir, "up"));
    await uploads.getByText("2 uploaded", { exact: true }).waitFor();
    assert.equal(await shell("cat up/deep/a up/b"), "a\nb\n");
    const data = await page.evaluateHandle(() => {
      const data = new DataTransfer();
      data.items.add(new File(["dropped\n"], "dropped"));
      return data;
    });
    await file("up").dispatchEvent("dragover", { dataTransfer: data });
    await page.getByText("Drop to upload to").waitFor();
    await file("up").dispatchEvent("drop", { dataTransfer: data });
    await uploads.getByText("3 uploaded", { exact: true }).waitFor();
    await file("dropped").waitFor();
    assert.equal(await shell("cat up/dropped"), "dropped\n");
    await file("up").click();
    const names = execFileSync("tar", ["-tf", await down("Download as tar")], { encoding: "utf8" }).trim().split("\n");
    assert.deepEqual(names.map((name) => name.replace(/^\.\//, "")).filter((name) => /[a-z]$/.test(name)).sort(), ["b", "deep/a", "dropped"]);
  });

  await step("a sign-out ends what is on its way, and whoever signs in next sees none of it", async () => {
    await throttle(1 << 20);
    const large = join(dir, "secret-plan");
    writeFileSync(large, randomBytes(32 << 20));
    await upload.setInputFiles(large);
    await page.getByRole("progressbar").waitFor();
    const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("secret-plan"));
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Sign out" }).click();
    await ended;
    await page.getByRole("heading", { name: "Sign in to Sandkasten" }).waitFor();
    await asksToLeave(false);
    await throttle(-1);
    await page.getByRole("button", { name: "Use an API key" }).click();
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await file("shared").waitFor();
    assert.equal(await uploads.count(), 0);
    assert.ok(!(await shell("find . -name '*secret-plan*'")).includes("secret"));
  });
  rmSync(dir, { recursive: true });
});
