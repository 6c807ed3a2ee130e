// The console in several tabs, and what it does when the sign-in, the daemon or a part of the page is gone for a while.
import assert from "node:assert/strict";
import { api, context, daemon, key, look, patience, run, signIn, step, url, watch } from "./page.mjs";

const streams = []; // the requests for events that are open
const isStream = (request) => request.url().startsWith(`${url}/v1/events`);
const forgetStream = (request) => isStream(request) && streams.splice(streams.indexOf(request), 1);
context.on("request", (request) => isStream(request) && streams.push(request));
context.on("requestfinished", forgetStream);
context.on("requestfailed", forgetStream);

/** until waits until act gives true; it may do something each time. */
async function until(what, act) {
  for (const end = Date.now() + patience; !(await act()); ) {
    assert.ok(Date.now() < end, `in vain: ${what}`);
    await new Promise((next) => setTimeout(next, 200));
  }
}

/** hide has a page believe that it is hidden, or seen. */
const hide = (page, hidden = true) =>
  page.evaluate((hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (hidden ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, hidden);

async function newPage(path, of = context) {
  const page = await of.newPage();
  watch(page);
  await page.goto(url + path);
  return page;
}

const make = (name) => api("POST", "/v1/sessions", { image: "base", name });
const link = (page, name) => page.getByRole("link", { name, exact: true });
const row = (page, name) => page.getByRole("row", { name: new RegExp(`\\b${name}\\b`) });
const heading = (page, name) => page.getByRole("heading", { name, exact: true });
const cover = (page) => page.getByRole("dialog", { name: "Sign in again" });

await run(async (page) => {
  const first = await make("first");
  await link(page, "first").waitFor();
  const tabs = [page];

  await step("seven tabs follow one stream of events, and an eighth has its answers", async () => {
    while (tabs.length < 7) tabs.push(await newPage("/"));
    await Promise.all(tabs.map((tab) => link(tab, "first").waitFor()));
    await make("seen-by-all");
    await Promise.all(tabs.map((tab) => link(tab, "seen-by-all").waitFor()));
    assert.equal(streams.length, 1, `${streams.length} streams`);
    const eighth = await newPage("/workspaces");
    await eighth.getByText("No workspaces").waitFor();
    assert.equal(await eighth.evaluate(() => fetch("/v1/me").then(({ status }) => status)), 200);
    await eighth.close();
  });

  await step("when the tab that reads the stream is hidden, or goes, another goes on", async () => {
    await hide(page);
    await until("another tab reads", () => streams.length === 1 && streams[0].frame().page() !== page);
    await make("after-hiding");
    await Promise.all(tabs.map((tab) => link(tab, "after-hiding").waitFor())); // also in the hidden one
    await hide(page, false);
    const reader = streams[0].frame().page();
    tabs.splice(tabs.indexOf(reader), 1);
    const asked = context.waitForEvent("request", isStream);
    await reader.close();
    assert.ok((await asked).headers()["last-event-id"], "the stream begins anew, so that what happened meanwhile may be lost");
    await make("after-closing");
    await Promise.all(tabs.map((tab) => link(tab, "after-closing").waitFor()));
  });

  await step("all tabs know that the daemon is away, and go on when it is back", async () => {
    while (tabs.length > 3) await tabs.pop().close();
    const away = (tab) => tab.getByText("The daemon is away").waitFor();
    await daemon("kill");
    await Promise.all(tabs.map(away));
    await daemon("start");
    await Promise.all(tabs.map((tab) => tab.getByText("The daemon is away").waitFor({ state: "detached" })));
    await make("after-restart");
    await Promise.all(tabs.map((tab) => link(tab, "after-restart").waitFor()));
    while (tabs.length > 1) await tabs.pop().close();
  });

  await step("a page without locks reads a stream of its own, while it is seen", async () => {
    const apart = await context.browser().newContext({ storageState: await context.storageState() });
    await apart.addInitScript(() => Object.defineProperty(Navigator.prototype, "locks", { get: () => undefined }));
    const lists = apart.waitForEvent("request", isStream);
    const alone = await newPage("/", apart);
    await lists;
    await link(alone, "after-restart").waitFor();
    await make("alone");
    await link(alone, "alone").waitFor();
    const ended = alone.waitForEvent("requestfailed", isStream);
    await hide(alone);
    await ended;
    await make("while-hidden");
    const again = alone.waitForRequest(isStream);
    await hide(alone, false);
    assert.ok((await again).headers()["last-event-id"]);
    await link(alone, "while-hidden").waitFor();
    await apart.close();
  });

  for (const { id, name } of await api("GET", "/v1/sessions")) if (name !== "first") await api("DELETE", `/v1/sessions/${id}`);
  const signInAgain = async (key) => {
    await cover(page).getByRole("button", { name: "Use an API key" }).click();
    await cover(page).getByLabel("API key").fill(key);
    await cover(page).getByRole("button", { name: "Sign in", exact: true }).click();
    await cover(page).waitFor({ state: "detached" });
  };
  const name = page.getByRole("dialog", { name: "New session" }).getByLabel("Name", { exact: true });

  await step("when the sign-in ends, what was typed waits unseen until the same user signs in again", async () => {
    await page.getByRole("button", { name: "New session" }).click();
    await name.fill("not-lost");
    await context.clearCookies();
    await cover(page).waitFor();
    const below = await page.evaluate(() => [...document.body.children].filter((one) => !one.matches("[data-cover], script, style") && getComputedStyle(one).opacity !== "0").map((one) => one.outerHTML.slice(0, 100)));
    assert.deepEqual(below, []);
    assert.equal(await page.evaluate(() => [[0.5, 0.5], [0.5, 0.1], [0.1, 0.1], [0.9, 0.9]].every(([x, y]) => document.elementFromPoint(x * innerWidth, y * innerHeight)?.closest("[data-cover]"))), true);
    await look(page, "sign-in-again");
    for (const pressed of ["Escape", "Escape", "n"]) await page.keyboard.press(pressed);
    await cover(page).waitFor();
    await signInAgain(key);
    assert.equal(await name.inputValue(), "not-lost");
    await name.press("End");
    await page.keyboard.type("-at-all");
    assert.equal(await name.inputValue(), "not-lost-at-all");
    await make("after-sign-in");
    await page.getByRole("link", { name: "after-sign-in", exact: true, includeHidden: true }).waitFor({ state: "attached" }); // events go on, below the dialog
  });

  await step("so does a text in another tab, and a sign-out asks because of it", async () => {
    await page.keyboard.press("Escape");
    await name.waitFor({ state: "detached" });
    const shell = async (cmd) => (await api("POST", `/v1/sessions/${first.id}/exec`, { cmd })).output;
    await shell("echo one > a.txt");
    const other = await newPage(`/sessions/${first.id}?tab=files`);
    await other.getByRole("treeitem", { name: "a.txt", exact: true }).dblclick();
    await other.getByLabel("Contents").press("ControlOrMeta+a");
    await other.keyboard.type("two\n");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("dialog").getByText("What is not saved is lost").waitFor();
    await page.getByRole("button", { name: "Stay" }).click();
    await other.getByRole("button", { name: /^Save/ }).click();
    const save = other.getByRole("button", { name: "Save", exact: true, includeHidden: true });
    await save.waitFor();
    await context.clearCookies();
    await save.evaluate((button) => button.click()); // the page may notice first, and cover it
    await cover(other).waitFor();
    await page.bringToFront(); // where it asks what sessions use
    await cover(page).waitFor();
    await signInAgain(key);
    await cover(other).waitFor({ state: "detached" });
    await other.getByRole("button", { name: /^Save/ }).click();
    await other.getByRole("button", { name: "Save", exact: true }).click();
    await other.getByRole("button", { name: "Saved" }).waitFor();
    assert.equal(await shell("cat a.txt"), "two\n");
    await other.close();
  });

  await step("when another signs in, nothing of it is left", async () => {
    await context.clearCookies();
    await cover(page).waitFor();
    await api("POST", "/v1/users", { name: "alice" });
    const { key: hers } = await api("POST", "/v1/keys", { user: "alice" });
    await signInAgain(hers);
    await page.getByText("No sessions").waitFor();
    assert.equal(await name.count(), 0);
    assert.equal(await link(page, "first").count(), 0);
    await make("of-the-other");
    const cookies = { credentials: "same-origin" };
    assert.equal((await page.evaluate((init) => fetch("/v1/sessions", init).then((answer) => answer.json()), cookies)).length, 0);
    await page.getByRole("button", { name: "Sign out" }).click();
    await heading(page, "Sign in to Sandkasten").waitFor();
    assert.equal(await cover(page).count(), 0); // who signs out on purpose leaves nothing
    await signIn(page);
  });

  const assets = /\/assets\/.*\.js/;
  const again = page.getByRole("button", { name: "Load again" });
  await step("a part of the page that cannot be loaded is loaded when that is possible again", async () => {
    await page.route(assets, (route) => route.abort());
    await page.getByRole("link", { name: "Snapshots" }).click();
    await page.getByRole("alert").filter({ hasText: "could not be loaded" }).waitFor();
    await look(page, "not-loaded");
    await page.unroute(assets);
    await again.click();
    await page.getByText("No snapshots").waitFor();
    assert.equal(await again.count(), 0);
  });

  await step("so is what lies over the page, and a tab of a session", async () => {
    await page.goto(`${url}/sessions/${first.id}?tab=about`);
    await page.getByText("created at", { exact: true }).waitFor();
    await page.route(assets, (route) => route.abort());
    await page.getByRole("tab", { name: "charts" }).click();
    await page.getByRole("alert").filter({ hasText: "could not be loaded" }).waitFor();
    await heading(page, "first").waitFor(); // the rest stays
    await page.getByRole("button", { name: "Command palette" }).click();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await page.unroute(assets);
    await again.click();
    await page.getByLabel("Time", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Command palette" }).click();
    await page.getByRole("combobox").waitFor();
    await page.keyboard.press("Escape");
  });

  await step("the page says when the daemon has a newer one", async () => {
    const index = `${url}/`;
    await page.goto(index);
    await link(page, "first").waitFor();
    await page.route(assets, (route) => route.fulfill({ status: 404, json: { error: "there is no such file", code: "not_found" } }));
    await page.route(index, (route) => route.fulfill({ contentType: "text/html", body: `<script type="module" src="/assets/index-newer.js"></script>` }));
    await page.getByRole("link", { name: "Workspaces" }).click();
    await page.getByRole("alert").filter({ hasText: "newer page" }).waitFor();
    await page.unroute(assets);
    await page.unroute(index);
    await page.getByRole("button", { name: "Load the page again" }).click();
    await page.getByText("No workspaces").waitFor();
  });

  await step("a command that begins while the list of commands is on its way is not lost", async () => {
    const path = `/sessions/${first.id}?tab=commands`;
    const list = `${url}/v1/sessions/${first.id}/execs*`;
    const other = await newPage(path);
    await other.getByRole("listitem").first().waitFor();
    let go;
    const held = new Promise((done) => (go = done));
    let came;
    const asked = new Promise((done) => (came = done));
    await page.route(list, async (route) => {
      const old = await route.fetch();
      came();
      await held;
      await route.fulfill({ response: old });
    });
    await page.goto(url + path);
    await asked;
    await api("POST", `/v1/sessions/${first.id}/exec`, { cmd: "echo meanwhile" });
    await other.getByText("echo meanwhile").waitFor(); // so its event has come
    go();
    await page.getByText("echo meanwhile").waitFor();
    await page.unroute(list);
    await other.close();
  });

  await page.goto(url);
  await step("what a session does moves its Idle", async () => {
    const idle = () => row(page, "first").getByRole("cell").nth(8).locator("time").getAttribute("datetime");
    const before = await idle();
    await api("POST", `/v1/sessions/${first.id}/exec`, { cmd: "true" });
    await until("a newer time", async () => (await idle()) > before);
  });

  await step("a small screen shows what has no column there", async () => {
    await page.setViewportSize({ width: 390, height: 800 });
    await row(page, "first").getByText(/^idle .*disk .*none/).waitFor();
    await page.setViewportSize({ width: 1280, height: 800 });
    await row(page, "first").getByText(/^idle/).waitFor({ state: "hidden" });
  });

  const choose = (name) => page.getByRole("checkbox", { name: `Choose ${name}`, exact: true });
  const bulk = "**/v1/sessions/bulk";
  await step("what is chosen while a request is under way stays chosen", async () => {
    await make("second");
    let go;
    const held = new Promise((done) => (go = done));
    await page.route(bulk, async (route) => (await held, await route.continue()));
    await choose("first").check();
    await page.getByRole("button", { name: "Pause 1" }).click();
    await choose("second").check();
    go();
    await page.getByText("Paused first").waitFor();
    await until("first is not chosen", async () => !(await choose("first").isChecked()));
    assert.ok(await choose("second").isChecked());
    await choose("second").uncheck();
    await page.unroute(bulk);
  });

  await step("why a session could not be changed goes with what happens to it next", async () => {
    await page.route(bulk, (route) => route.fulfill({ json: { results: [{ id: first.id, status: 503, error: { error: "no room for it", code: "unavailable" } }] } }));
    await choose("first").check();
    await page.getByRole("button", { name: "Resume 1" }).click();
    const why = row(page, "first").getByText("no room for it");
    await why.waitFor();
    await page.unroute(bulk);
    await until("the reason is gone", async () => {
      await api("POST", `/v1/sessions/${first.id}/resume`);
      await api("POST", `/v1/sessions/${first.id}/pause`);
      return (await why.count()) === 0;
    });
    // It is a problem, and stays when others come that are none.
    const notices = page.getByRole("status", { name: "Notices" });
    for (const [verb, before] of [["Resume", "paused"], ["Pause", "running"], ["Resume", "paused"], ["Pause", "running"]]) {
      await row(page, "first").getByText(before).waitFor();
      await choose("first").check();
      await page.getByRole("button", { name: `${verb} 1` }).click();
      await until(`${verb} is done`, async () => !(await choose("first").isChecked()));
    }
    await notices.getByText("no room for it").waitFor();
    await notices.getByRole("button", { name: "Close this notice" }).first().click();
  });

  await step("sessions that are over have a filter, and one that crashes says so", async () => {
    const { id } = await make("over-now");
    await api("DELETE", `/v1/sessions/${id}`);
    await page.getByLabel("Status").selectOption("ended");
    await row(page, "over-now").getByText("destroyed").first().waitFor();
    assert.equal(await link(page, "first").count(), 0);
    assert.ok(await choose("over-now").isDisabled());
    await look(page, "ended-sessions");
    // Events that this step makes up come to a page in a browser of its own.
    const apart = await context.browser().newContext({ storageState: await context.storageState() });
    const other = await apart.newPage();
    watch(other);
    let tell;
    await other.route(/\/v1\/events(\?|$)/, async (route) => {
      const events = await new Promise((next) => (tell = next));
      await route.fulfill({ contentType: "text/event-stream", body: events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("") });
    });
    await other.goto(url);
    await link(other, "first").waitFor();
    await until("the events are asked for", () => tell !== undefined);
    const session = { ...(await api("GET", `/v1/sessions/${first.id}`)), status: "crashed", end_reason: "the runner has gone" };
    tell([{ type: "session.ended", time: new Date().toISOString(), session_id: first.id, session, before: "running" }]);
    const notice = other.getByRole("status", { name: "Notices" });
    await notice.getByText("first has crashed").waitFor();
    await notice.getByText("the runner has gone").waitFor();
    await link(other, "first").waitFor({ state: "detached" });
    await notice.getByRole("link", { name: "Show it" }).click();
    await other.waitForURL(new RegExp(first.id));
    await apart.close();
  });
});
