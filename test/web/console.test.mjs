// The console as a whole: from signing in to signing out.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { api, context, daemon, evil, key, look, run, step, url, watch } from "./page.mjs";

/** twoFrames waits until the page has drawn twice: the page handles a movement of the pointer in a later task. */
const twoFrames = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

await run(async (page) => {
  await step("sign in", async () => {
    await page.goto(url);
    await page.getByRole("button", { name: "Use an API key" }).click();
    await look(page, "sign-in");
    await page.getByLabel("API key").fill("sk_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    assert.ok(!stored.includes(key), "the key is kept in the page");
    const cookie = (await context.cookies()).find(({ name }) => name.includes("sandkasten"));
    assert.ok(cookie.httpOnly && cookie.sameSite === "Strict", JSON.stringify(cookie));
  });

  const session = await api("POST", "/v1/sessions", { image: "base", name: "first", labels: { team: "<img src=x onerror=pwned=1>" } });
  await step("a session that is made elsewhere is there at once", async () => {
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.getByRole("row", { name: /first/ }).getByText("running").waitFor();
    await api("POST", `/v1/sessions/${session.id}/stop`);
    await page.getByRole("row", { name: /first/ }).getByText("stopped").waitFor();
    await api("POST", `/v1/sessions/${session.id}/start`);
    await page.getByRole("row", { name: /first/ }).getByText("running").waitFor();
    await look(page, "sessions");
  });

  await step("search is in the address", async () => {
    await page.getByRole("searchbox").fill("nothing-like-it");
    await page.getByText("Nothing matches").waitFor();
    assert.match(page.url(), /q=nothing-like-it/);
    await page.goto(`${url}/?q=first`);
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.goto(url);
  });

  await step("new session", async () => {
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByLabel("Name", { exact: true }).fill("second");
    await page.getByRole("tab", { name: "Python" }).click();
    await page.getByText('name="second"').waitFor();
    await look(page, "new-session");
    await page.getByLabel("Name", { exact: true }).fill("not a name");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    await page.getByLabel("Name", { exact: true }).fill("second");
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.waitForURL(/\/sessions\//);
  });

  const screen = (of = page) => of.locator("[data-terminal] .xterm-rows").first();
  await step("terminal", async () => {
    await screen().waitFor();
    await page.locator("[data-terminal]").first().click();
    await page.keyboard.type("echo seen-$((40+2)); stty size\n");
    await screen().getByText("seen-42").first().waitFor();
    await page.waitForTimeout(500);
    await look(page, "terminal");
    await page.reload();
    await screen().getByText("seen-42").first().waitFor();
  });

  // A page at another port is of the same site: the browser sends the cookie along.
  await step("a page of another port neither shows nor steers the console", async () => {
    const server = createServer((_, answer) => answer.writeHead(200, { "Content-Type": "text/html" }).end("<h1>foreign</h1>"));
    await new Promise((up) => server.listen(0, "127.0.0.1", up));
    const foreign = `http://127.0.0.1:${server.address().port}/`;
    const other = await context.newPage();
    const cookies = [];
    other.on("request", (request) => request.url().startsWith(url) && cookies.push(request.allHeaders().then(({ cookie }) => cookie ?? "")));
    await other.goto(foreign);
    const framed = ["/", `/sessions/${session.id}`, "/users", "/docs/", "/docs/reference.html"].map((path) => url + path);
    await other.evaluate((pages) => Promise.all(pages.map((src) => new Promise((done) => document.body.append(Object.assign(document.createElement("iframe"), { src, onload: done }))))), [foreign, ...framed]);
    assert.deepEqual(other.frames().slice(1).map((frame) => frame.url()), [foreign, ...framed.map(() => "chrome-error://chromewebdata/")]);
    const did = await other.evaluate(
      async ({ url, id }) => {
        const body = JSON.stringify({ cmd: "touch /workspace/forged" });
        const opened = (made) => new Promise((done) => ["open", "message", "error"].forEach((kind) => made.addEventListener(kind, () => done(kind))));
        const ask = (path, init) => fetch(url + path, { credentials: "include", ...init }).then(({ type, status }) => `${type} ${status}`, () => "refused");
        const form = Object.assign(document.createElement("form"), { method: "post", action: `${url}/v1/sessions/${id}/exec`, enctype: "text/plain", target: "posted" });
        form.append(Object.assign(document.createElement("input"), { name: body.slice(0, -1) + ', "a": "', value: '"}' }));
        document.body.append(Object.assign(document.createElement("iframe"), { name: "posted" }), form);
        form.submit();
        return {
          text: await ask(`/v1/sessions/${id}/exec`, { method: "POST", mode: "no-cors", body }),
          json: await ask(`/v1/sessions/${id}/exec`, { method: "POST", headers: { "Content-Type": "application/json" }, body }),
          list: await ask("/v1/sessions", {}),
          stream: await opened(new EventSource(`${url}/v1/events`, { withCredentials: true })),
          terminal: await opened(new WebSocket(`${url.replace("http", "ws")}/v1/sessions/${id}/terminal`, "sandkasten")),
          out: await ask("/v1/auth/sign-out", { method: "POST", mode: "no-cors" }),
        };
      },
      { url, id: session.id },
    );
    assert.deepEqual(did, { text: "opaque 0", json: "refused", list: "refused", stream: "error", terminal: "error", out: "opaque 0" });
    assert.ok((await Promise.all(cookies)).some((cookie) => cookie.includes("sandkasten_session=")), "the browser sends no cookie, so this shows nothing");
    assert.equal((await fetch(`${url}/v1/sessions/${session.id}/fs/read?path=forged`, { headers: { Authorization: `Bearer ${key}` } })).status, 404);
    await other.close();
    server.close();
    await page.reload();
    await page.getByText("Sign out").waitFor();
  });

  await page.goto(`${url}/sessions/${session.id}?tab=commands`);
  await step("commands, of hostile text", async () => {
    await page.getByRole("textbox", { name: "Command" }).fill(`printf '%s\\n' '${evil}' '\u001b]0;title\u0007'`);
    await page.keyboard.press("Enter");
    await page.getByText("\u27e8202e\u27e9").first().waitFor();
    await page.getByText("\u2713 0").waitFor();
    await look(page, "commands");
  });

  await step("files", async () => {
    const shell = (cmd) => api("POST", `/v1/sessions/${session.id}/exec`, { cmd });
    await shell(`mkdir -p dir && echo one > dir/a.txt && printf '%s' '${evil}' > './<img src=x onerror=pwned=1>.html' && printf '\\000\\001' > bin`);
    await page.getByRole("tab", { name: "files" }).click();
    const file = (name) => page.getByRole("treeitem", { name, exact: true });
    await file("dir").waitFor();
    await look(page, "files");
    await page.getByRole("treeitem", { name: /^<img.*html$/ }).dblclick();
    await page.getByRole("button", { name: "Source", exact: true }).click();
    assert.ok((await page.getByLabel("Contents").innerText()).startsWith("<img"));
    await page.getByRole("button", { name: "Close" }).click();
    await file("bin").dblclick();
    await page.getByText("00 01").waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await file("dir").click();
    await file("a.txt").dblclick();
    await page.getByLabel("Contents").press("ControlOrMeta+a");
    await page.keyboard.type("two\n");
    await page.getByRole("button", { name: /^Save/ }).click();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Saved" }).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByLabel("Upload", { exact: true }).setInputFiles({ name: "up.txt", mimeType: "text/plain", buffer: Buffer.from("up\n") });
    await file("up.txt").waitFor();
    assert.equal((await shell("cat dir/a.txt dir/up.txt")).output, "two\nup\n");
    await file("dir").click();
    const loading = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download as tar" }).click();
    assert.equal(await (await loading).failure(), null);
  });

  await page.goto(`${url}/sessions/${session.id}?tab=about`);
  await step("about", () => page.getByText(session.id).first().waitFor().then(() => look(page, "about")));

  await step("the daemon is killed and comes back", async () => {
    await page.goto(url);
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.getByRole("searchbox").fill("fir");
    await daemon("kill");
    await page.getByText("The daemon is away").waitFor();
    await daemon("start");
    await page.getByText("The daemon is away").waitFor({ state: "detached" });
    assert.equal(await page.getByRole("searchbox").inputValue(), "fir");
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.getByRole("searchbox").fill("");
  });

  const dialog = page.getByRole("dialog");
  const stateOf = (name, status) => page.getByRole("row", { name: new RegExp(name) }).getByText(status).waitFor();
  const focusedRow = () => page.evaluate(() => document.activeElement.closest("[role=row]")?.getAttribute("aria-rowindex"));

  await step("the palette finds sessions, pages and what can be done", async () => {
    const find = async (text) => {
      await page.keyboard.press("Control+k");
      await dialog.getByRole("combobox").fill(text);
    };
    await page.goto(url);
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.getByRole("button", { name: "Command palette" }).click();
    await dialog.getByRole("option", { name: /first/ }).waitFor();
    await look(page, "palette");
    await dialog.getByRole("combobox").fill("nothing-like-it");
    await dialog.getByText("Nothing fits").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    for (const [text, name] of [[session.id.slice(4, 12), /first/], ["onerror", /first/], ["secon", /second/], ["wrksp", /Workspaces/]]) {
      await find(text);
      await dialog.getByRole("option", { name, selected: true }).waitFor();
      await page.keyboard.press("Escape");
    }
    await find("");
    const active = () => dialog.getByRole("combobox").evaluate((box) => document.getElementById(box.getAttribute("aria-activedescendant")).innerText);
    const top = await active();
    await page.keyboard.press("ArrowUp");
    assert.notEqual(await active(), top);
    await page.keyboard.press("ArrowDown");
    assert.equal(await active(), top);
    await page.keyboard.press("Escape");
    await find("first");
    await page.keyboard.press("Enter");
    await page.waitForURL(new RegExp(`/sessions/${session.id}`));
    await page.goto(`${url}/sessions/${session.id}?tab=about`);
    await page.getByText(session.id).first().waitFor();
    await find("stop first");
    await page.keyboard.press("Enter");
    await page.getByText("Stopped first").waitFor();
    await find("delete first");
    await page.keyboard.press("Enter");
    await dialog.getByText("This cannot be undone").waitFor();
    await look(page, "delete-one");
    await dialog.getByRole("button", { name: "Keep it" }).click();
    await find("start first");
    await page.keyboard.press("Enter");
    await page.getByText("Started first").waitFor();
    await find("switch col");
    const theme = await page.evaluate(() => document.documentElement.dataset.theme);
    await page.keyboard.press("Enter");
    await page.waitForFunction((before) => document.documentElement.dataset.theme !== before, theme);
    await find("snapshot first");
    await page.keyboard.press("Enter");
    await dialog.getByRole("heading", { name: "New snapshot" }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  await step("keys lead to pages and tabs, and through tables", async () => {
    await page.keyboard.press("4");
    await page.waitForURL(/tab=ports/);
    await page.keyboard.press("0");
    await page.waitForURL(/tab=about/);
    await page.keyboard.type("gi");
    await page.getByRole("heading", { name: "Images", exact: true }).waitFor();
    await page.getByRole("row").nth(1).waitFor();
    await page.keyboard.press("j");
    assert.equal(await page.evaluate(() => document.activeElement.tagName), "TR");
    await page.keyboard.type("gs");
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.keyboard.press("j");
    assert.equal(await focusedRow(), "2");
    await page.keyboard.press("ArrowDown");
    assert.equal(await focusedRow(), "3");
    await page.keyboard.press("k");
    assert.equal(await focusedRow(), "2");
    await page.keyboard.press("x");
    await page.getByRole("button", { name: "Delete 1" }).waitFor();
    await page.keyboard.press("x");
    await page.getByRole("button", { name: "Delete 1" }).waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/sessions\//);
    await page.goBack();
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.keyboard.press("n");
    await dialog.getByRole("heading", { name: "New session" }).waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.keyboard.type("gin?x1");
    assert.equal(await page.getByRole("searchbox").inputValue(), "gin?x1");
    assert.equal(await dialog.count(), 0);
    await page.getByRole("searchbox").fill("");
    await page.getByRole("searchbox").blur();
  });

  await step("keys do nothing in a terminal", async () => {
    await page.goto(`${url}/sessions/${session.id}`);
    await screen().getByText("/workspace#").first().waitFor(); // before, what is typed is for nobody
    await page.locator("[data-terminal]").first().click();
    await page.keyboard.type("echo gin?2-$((40+2))");
    await page.keyboard.press("Control+k");
    await page.keyboard.press("Enter");
    await screen().getByText("gin?2-42").first().waitFor();
    assert.equal(await dialog.count(), 0);
    assert.ok(!page.url().includes("tab="), page.url());
  });

  await step("the overview of keys turns them off", async () => {
    await page.goto(url);
    await page.getByRole("link", { name: "first" }).waitFor();
    await page.keyboard.press("?");
    await dialog.getByText("In tables").waitFor();
    await look(page, "keys");
    await dialog.getByRole("checkbox").uncheck();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    for (const off of [true, false]) {
      await page.reload();
      await page.getByRole("link", { name: "first" }).waitFor();
      assert.equal(await page.getByRole("button", { name: "New session" }).getAttribute("aria-keyshortcuts"), off ? null : "n");
      await page.keyboard.press("n");
      if (!off) {
        await dialog.getByRole("heading", { name: "New session" }).waitFor();
        break;
      }
      await page.waitForTimeout(500);
      assert.equal(await dialog.count(), 0);
      await page.keyboard.press("Control+k");
      await dialog.getByRole("combobox").fill("keyboard");
      await page.keyboard.press("Enter");
      await dialog.getByRole("checkbox").check();
      await page.keyboard.press("Escape");
    }
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  await step("several at once, and undo", async () => {
    await page.getByRole("checkbox", { name: "Choose all" }).check();
    const asked = page.waitForRequest(/\/v1\/sessions\/bulk$/);
    await page.getByRole("button", { name: "Stop 2" }).click();
    assert.equal((await asked).postDataJSON().ids.length, 2);
    await page.getByText("Stopped 2 sessions").waitFor();
    await page.getByRole("button", { name: "Undo" }).focus(); // it waits for who is there
    await stateOf("first", "stopped");
    await look(page, "undo");
    await page.keyboard.press("Enter");
    await page.getByText("Started 2 sessions; what ran before does not come back").waitFor();
    await stateOf("first", "running");
    await stateOf("second", "running");
    assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0, "an undo is undone");
    await page.clock.install();
    await page.getByRole("checkbox", { name: "Choose first" }).check();
    await page.getByRole("button", { name: "Pause 1" }).click();
    // The clock goes on by itself: what is hovered at once is there however slow the machine is.
    await page.getByRole("status", { name: "Notices" }).getByText("Paused first").hover();
    await twoFrames(page);
    await stateOf("first", "paused");
    await page.clock.fastForward(11_000);
    await page.keyboard.press("z");
    const resumed = page.getByRole("status", { name: "Notices" }).getByText("Resumed first");
    await resumed.hover();
    await twoFrames(page);
    await stateOf("first", "running");
    await page.mouse.move(5, 300);
    await twoFrames(page);
    await page.clock.fastForward(11_000);
    await resumed.waitFor({ state: "detached", timeout: 8000 });
  });

  await step("what fails is said in its row", async () => {
    await page.route("**/v1/sessions/bulk", async (route) => {
      const ids = route.request().postDataJSON().ids;
      await route.fulfill({ json: { results: ids.map((id) => (id === session.id ? { id, status: 503, error: { error: `no room for ${evil}`, code: "unavailable" } } : { id, status: 200 })) } });
    });
    await page.getByRole("checkbox", { name: "Choose all" }).check();
    await page.getByRole("button", { name: "Pause 2" }).click();
    await page.getByText("Paused second; 1 of 2 failed").waitFor();
    await page.getByRole("row", { name: /first/ }).getByText(/no room for <img/).waitFor();
    assert.ok(await page.getByRole("checkbox", { name: "Choose first" }).isChecked());
    await look(page, "failed-rows");
    await page.unroute("**/v1/sessions/bulk");
    await page.getByRole("status", { name: "Notices" }).getByRole("button", { name: "Close this notice" }).last().click();
  });

  await step("delete", async () => {
    await page.getByRole("checkbox", { name: "Choose all" }).check();
    await page.getByRole("button", { name: "Delete 2" }).click();
    await look(page, "delete");
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No sessions").waitFor();
    await look(page, "empty");
  });

  await step("signing out in one tab signs the other out", async () => {
    const other = await context.newPage();
    watch(other);
    await other.goto(url);
    await other.getByRole("button", { name: "Sign out" }).click();
    await other.getByRole("heading", { name: "Sign in to Sandkasten" }).waitFor();
    await page.getByRole("heading", { name: "Sign in to Sandkasten" }).waitFor();
  });

  await step("who only reads is offered nothing else", async () => {
    await api("POST", "/v1/users", { name: "reader" });
    await api("POST", "/v1/sessions", { image: "base", name: "of-admin" });
    const { key: full } = await api("POST", "/v1/keys", { user: "reader" });
    const made = await fetch(`${url}/v1/sessions`, { method: "POST", headers: { Authorization: `Bearer ${full}`, "Content-Type": "application/json" }, body: JSON.stringify({ image: "base", name: "mine" }) });
    assert.equal(made.status, 201);
    const mine = await made.json();
    const ran = await fetch(`${url}/v1/sessions/${mine.id}/exec`, { method: "POST", headers: { Authorization: `Bearer ${full}`, "Content-Type": "application/json" }, body: JSON.stringify({ cmd: "touch kept.txt && true" }) });
    assert.equal(ran.status, 200);
    const { key: reading } = await api("POST", "/v1/keys", { user: "reader", scope: "read" });
    await page.getByRole("button", { name: "Use an API key" }).click();
    await page.getByLabel("API key").fill(reading);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("link", { name: "mine" }).waitFor();
    assert.equal(await page.getByRole("status", { name: "Notices" }).innerText(), "");
    await page.getByRole("link", { name: "mine" }).click();
    await page.getByRole("heading", { name: "mine" }).waitFor();
    for (const name of ["stop", "Delete", "New session"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
    await page.getByText("your key only reads").waitFor();
    await page.bringToFront(); // a page behind another one draws once a second
    const acts = /^(Run|New terminal|Signal|Close shell|Preview|Edit|New snapshot|Fork|Restore|Rename|New file|New folder|Save|Add an hour)/;
    for (const [tab, shown] of Object.entries({ commands: "touch kept.txt && true", processes: "default", ports: "Ports", network: "none", files: "kept.txt", snapshots: "Forks", limits: "Resources" })) {
      await page.getByRole("tab", { name: tab }).click();
      if (tab !== "ports") await page.getByText(shown, { exact: true }).first().waitFor();
      assert.equal(await page.getByRole("button", { name: acts }).count(), 0, tab);
    }
    await page.getByRole("button", { name: "Command palette" }).click();
    await dialog.getByRole("option", { name: "Files of mine" }).waitFor();
    for (const name of [/^Stop/, /^Delete/, /^Fork/, /^Snapshot mine/, /^New session/, /of-admin/]) assert.equal(await dialog.getByRole("option", { name }).count(), 0, String(name));
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("n");
    await page.waitForTimeout(300);
    assert.equal(await dialog.count(), 0);
  });
}, false);
