// What is filled in, typed and chosen: forms and dialogs, the terminal by keyboard, filters, and what charts say.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { api, context, key, look, patience, run, step, url, watch } from "./page.mjs";

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base", name: "forms" });
  const at = `/v1/sessions/${session.id}`;
  const shell = (cmd) => api("POST", `${at}/exec`, { cmd });
  const tab = (name, of = page) => of.goto(`${url}/sessions/${session.id}?tab=${name}`);
  const dialog = page.getByRole("dialog");

  /** until waits until act gives something true, which it gives back. */
  const until = async (what, act) => {
    for (const end = Date.now() + patience; ; await page.waitForTimeout(50)) {
      const found = await act();
      if (found) return found;
      assert.ok(Date.now() < end, what);
    }
  };

  await step("a new session has the image that is chosen, and otherwise none is asked for", async () => {
    const snapshot = await api("POST", `${at}/snapshots`, { name: "kept" });
    await page.getByRole("button", { name: "New session" }).click();
    const image = dialog.getByLabel("Image");
    await image.locator("option", { hasText: "base" }).waitFor({ state: "attached" });
    assert.equal(await image.inputValue(), "the default");
    await image.selectOption("base");
    await dialog.getByText('"image":"base","on_expiry":"stop"').waitFor();
    await image.selectOption("the default");
    await dialog.getByLabel("Begin with the files of a snapshot").fill(snapshot.id);
    assert.equal(await image.inputValue(), "the snapshot's");
    await dialog.getByLabel("Name", { exact: true }).fill("restored-by-code");
    const texts = {};
    for (const language of ["curl", "CLI", "Python", "TypeScript"]) {
      await page.getByRole("tab", { name: language }).click();
      texts[language] = await dialog.locator("pre").innerText();
      assert.ok(texts[language].includes(url), `${language} names the daemon`);
      assert.ok(texts[language].includes(snapshot.id), language);
      assert.doesNotMatch(texts[language], /image|"base"/i, language);
    }
    await look(page, "new-session-snapshot");
    const made = JSON.parse(execFileSync("sh", ["-c", texts.curl], { env: { ...process.env, SANDKASTEN_API_KEY: key }, stdio: ["ignore", "pipe", "ignore"] }));
    assert.deepEqual([made.name, made.image], ["restored-by-code", "base"]);
    execFileSync("python3", ["-c", "import ast, sys; ast.parse(sys.stdin.read())"], { input: texts.Python });
    assert.match(texts.Python, /^from sandkasten import SyncSandboxClient\n\nclient = SyncSandboxClient\("http/);
    execFileSync("node", ["--input-type=module", "--check", "-"], { input: texts.TypeScript });
    assert.match(texts.TypeScript, /^import \{ SandboxClient \} from "@sandkasten\/sdk";\n\nconst client = new SandboxClient\(\{ baseUrl: "http/);
    assert.match(texts.CLI, /^SANDKASTEN_URL=http\S+ sandkasten create --name restored-by-code --restore \S+$/);
    await dialog.getByLabel("Name", { exact: true }).fill("restored-by-form");
    const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/v1/sessions"));
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    assert.deepEqual((await sent).postDataJSON(), { name: "restored-by-form", restore_snapshot_id: snapshot.id });
    await page.waitForURL(/\/sessions\//);
    await page.getByRole("heading", { name: "restored-by-form" }).waitFor();
    await until("its terminal has the focus", () => page.evaluate(() => document.activeElement.closest("[data-terminal]") !== null));
    for (const name of ["restored-by-form", "restored-by-code"]) await api("DELETE", `/v1/sessions/${name}`);
  });

  await step("a click beside a form loses nothing of it", async () => {
    await page.goto(url);
    await page.getByRole("button", { name: "New session" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("typed");
    await page.mouse.click(5, 5);
    await page.waitForTimeout(200);
    assert.equal(await dialog.getByLabel("Name", { exact: true }).inputValue(), "typed");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("?");
    await dialog.getByText("Ctrl+Shift+Enter").waitFor();
    await look(page, "keys-terminal");
    await page.mouse.click(5, 5);
    await dialog.waitFor({ state: "detached" });
    await page.keyboard.press("?");
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "detached" });
  });

  const rows = page.locator("[data-terminal]:visible .xterm-rows");
  const focused = () => page.evaluate(() => (document.activeElement.closest("[data-terminal]") ? "the terminal" : document.activeElement.innerText));
  await step("a terminal has the focus, and gives it back", async () => {
    await tab("terminal");
    await rows.getByText("#").first().waitFor();
    await page.keyboard.type("echo first-$((40+2))\n");
    await rows.getByText("first-42").first().waitFor();
    await page.getByRole("button", { name: "New terminal" }).click();
    await rows.getByText("#").first().waitFor();
    await page.keyboard.type("echo second-$((40+2))\n");
    await rows.getByText("second-42").first().waitFor();
    const described = await page.locator("[data-terminal]:visible textarea").getAttribute("aria-describedby");
    assert.match(await page.locator(`#${described}`).innerText(), /^Ctrl\+Shift\+Enter leaves the terminal/);
    await page.keyboard.press("Control+Shift+Enter");
    assert.equal(await focused(), "Terminal 2");
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Shift+Tab");
    assert.equal(await focused(), "Terminal 1");
    await page.keyboard.press("Enter");
    assert.equal(await focused(), "the terminal");
    await page.keyboard.type("echo again-$((40+2))\n");
    await rows.getByText("again-42").first().waitFor();
    assert.equal(await rows.getByText("second-42").count(), 0);
    await page.keyboard.press("Control+Shift+Enter");
    await page.keyboard.press("2");
    await rows.first().waitFor({ state: "hidden" }); // the address changes before the page does
    await page.keyboard.press("1");
    await until("the terminal has the focus again", async () => (await focused()) === "the terminal");
  });

  await step("find has a button, and gives the focus back", async () => {
    await rows.getByText("again-42").first().waitFor();
    await page.getByRole("button", { name: "Find in it" }).click();
    await page.getByRole("searchbox", { name: "Find in the terminal" }).fill("again-42");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    assert.equal(await focused(), "the terminal");
    await look(page, "terminal-foot");
  });

  await step("a terminal is read aloud when that is wanted, which the browser remembers", async () => {
    await page.getByLabel("For a screen reader").check();
    const text = page.locator("[data-terminal]:visible .xterm-accessibility-tree");
    await text.getByText("again-42").first().waitFor({ state: "attached" });
    await page.reload();
    await text.getByText("again-42").first().waitFor({ state: "attached" });
    await page.getByLabel("For a screen reader").uncheck();
    await text.waitFor({ state: "detached" });
  });

  await step("a terminal copies where the browser has no clipboard for pages, and says when it cannot", async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const other = await context.newPage();
    watch(other);
    await other.addInitScript(() => {
      window.real = navigator.clipboard;
      Object.defineProperty(navigator, "clipboard", { value: undefined });
    });
    await tab("terminal", other);
    const line = other.locator("[data-terminal]:visible .xterm-rows").getByText("#").first();
    await line.waitFor();
    await other.keyboard.type("echo copied42me\n");
    const word = other.locator("[data-terminal]:visible .xterm-rows > div").filter({ hasText: /^copied42me/ });
    await word.waitFor();
    await word.dblclick({ position: { x: 20, y: 5 }, force: true }); // what takes it lies over the text
    await other.keyboard.press("Control+Shift+C");
    await until("it is on the clipboard", async () => (await other.evaluate(() => window.real.readText())) === "copied42me");
    assert.ok(await other.evaluate(() => document.activeElement.closest("[data-terminal]") !== null), "the terminal has the focus still");
    await other.evaluate(() => (document.execCommand = () => false));
    await word.dblclick({ position: { x: 20, y: 5 }, force: true }); // what takes it lies over the text
    await other.keyboard.press("Control+Shift+C");
    await other.getByRole("alert").filter({ hasText: "refused to copy" }).waitFor();
    await other.close();
  });

  const command = page.getByRole("textbox", { name: "Command" });
  await step("a command is shown in full, or as far as it is kept", async () => {
    await tab("commands");
    const long = `: ${"x".repeat(300)}`;
    await shell(long);
    await shell(": short");
    const row = page.getByRole("button", { name: ": short" });
    assert.equal(await row.getAttribute("title"), ": short");
    await row.click();
    const item = page.getByRole("listitem").filter({ has: row });
    await Promise.all([item.getByText("copied").waitFor(), item.getByRole("button", { name: /^Copy the command/ }).click()]);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), ": short");
    assert.equal(await item.getByText("first 256 bytes").count(), 0);
    await page.getByRole("button", { name: /xxx/ }).click();
    await page.getByText("first 256 bytes").waitFor();
    assert.equal((await page.locator("main pre").first().innerText()).trim(), long.slice(0, 256));
    await look(page, "command-in-full");
  });

  await step("a command that is refused is put back", async () => {
    await page.route("**/exec/stream", (route) => route.fulfill({ status: 409, json: { error: "the session is in a bad mood", code: "conflict" } }));
    await command.fill("echo refused");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "in a bad mood" }).waitFor();
    assert.equal(await command.inputValue(), "echo refused");
    await page.unroute("**/exec/stream");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: /^\S+ echo refused \u2713/ }).waitFor();
    assert.equal(await command.inputValue(), "");
  });

  await step("a command that runs on holds no request", async () => {
    const over = page.waitForEvent("requestfailed", (request) => request.url().endsWith("/exec/stream"));
    await command.fill("while [ ! -e over ]; do sleep 0.1; done; echo went-on");
    await page.keyboard.press("Enter");
    await over;
    const row = page.getByRole("button", { name: /went-on/ });
    await row.getByText("running").waitFor();
    await api("POST", `${at}/processes`, { cmd: ["touch", "over"] });
    await row.getByText("\u2713 0").waitFor();
  });

  await step("what a process uses is that of now", async () => {
    await api("POST", `${at}/processes`, { cmd: ["sh", "-c", "while [ ! -e grow ]; do sleep 0.1; done; x=$(head -c 30000000 /dev/zero | tr '\\0' a); sleep 1000"], background: true });
    await tab("processes");
    const row = page.getByRole("listitem").filter({ hasText: "! -e grow" });
    const used = async () => Number(/([\d.]+) MiB/.exec(await row.innerText())?.[1]);
    await until("what it uses is shown", async () => (await used()) < 20);
    await shell("touch grow");
    await until("what it uses has grown", async () => (await used()) > 25);
  });

  await step("limits: what cannot be taken away is refused at its field, and Save is for a change", async () => {
    await tab("limits");
    const ttl = page.getByLabel("Expires after seconds without activity");
    const save = page.getByRole("button", { name: "Save" });
    await ttl.waitFor();
    assert.ok(await save.isDisabled());
    const before = await ttl.inputValue();
    await ttl.fill("");
    await page.getByRole("alert").filter({ hasText: `not taken away. It is ${before} now` }).waitFor();
    assert.equal(await ttl.getAttribute("aria-invalid"), "true");
    assert.ok(await save.isDisabled());
    await look(page, "limits-emptied");
    await ttl.fill("1234");
    await save.click();
    await page.getByText("Saved").waitFor();
    assert.equal((await api("GET", at)).ttl_seconds, 1234);
    assert.ok(await save.isDisabled());
  });

  await step("filters ask for what was typed, not for each letter of it", async () => {
    await page.goto(`${url}/audit`);
    await page.getByRole("row").nth(1).waitFor();
    const asked = [];
    page.on("request", (request) => new URL(request.url()).pathname === "/v1/audit" && asked.push(new URL(request.url()).searchParams));
    await page.evaluate(() => {
      window.flashes = 0;
      new MutationObserver(() => (window.flashes += document.querySelectorAll("main [aria-busy=true]").length)).observe(document.body, { childList: true, subtree: true });
    });
    await page.getByLabel("Owner").pressSequentially("nobody-of-this-name");
    await page.waitForURL(/owner=nobody-of-this-name/);
    await page.getByText("Nothing matches").waitFor();
    await until("the whole name is asked for", () => asked.at(-1)?.get("owner") === "nobody-of-this-name");
    assert.ok(asked.length < 10, `asked ${asked.length} times for 19 letters`);
    await page.getByLabel("Owner").fill("");
    await page.getByLabel("Owner").press("Enter");
    await page.getByRole("row").nth(1).waitFor();
    await page.getByLabel("Until").fill("2020-01-01T00:00");
    await page.getByText("Nothing matches").waitFor();
    assert.equal(Date.parse(asked.at(-1).get("until")), await page.evaluate(() => Date.parse("2020-01-01T00:00")));
    await page.getByLabel("Until").fill("");
    await page.getByLabel("Since").fill("2020-01-01T00:00");
    await page.getByRole("row").nth(1).waitFor();
    assert.equal(await page.evaluate(() => window.flashes), 0, "the table stays until the answer is there");
    await look(page, "audit-filters");
  });

  await step("a month is checked where the browser has no field for months", async () => {
    await page.goto(`${url}/usage`);
    const month = page.getByLabel("Month");
    await until("the month is shown", () => month.inputValue());
    await month.evaluate((field) => (field.type = "text")); // as Firefox and Safari have it
    const asked = [];
    page.on("request", (request) => request.url().includes("month=") && asked.push(new URL(request.url()).searchParams.get("month")));
    await month.fill("2026-13");
    await page.getByText("Write it as YYYY-MM.").waitFor();
    await look(page, "usage-month");
    await month.fill("2026-01");
    await page.getByText("Write it as YYYY-MM.").waitFor({ state: "detached" });
    await until("it is asked for", () => asked.length > 0);
    assert.deepEqual([...new Set(asked)], ["2026-01"]);
    assert.match(page.url(), /month=2026-01/);
  });

  await step("a decision of the network says when it was, on small screens too", async () => {
    await api("PUT", `${at}/network`, { mode: "allow", allow: ["one.example.org"] });
    await shell("getent hosts two.example.org || true");
    await tab("network");
    const time = page.getByRole("listitem").filter({ hasText: "two.example.org" }).first().locator("time");
    await time.waitFor();
    assert.match(await time.getAttribute("title"), /\d{4}/);
    await page.setViewportSize({ width: 390, height: 800 });
    await time.waitFor(); // it is seen
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  await step("a chart says the value at the cursor, and by keyboard", async () => {
    await page.route("**/stats/history*", (route) => {
      const begun = Date.now() - 3000_000;
      const samples = Array.from({ length: 300 }, (_, i) => ({ at: new Date(begun + i * 10_000).toISOString(), cpu_usage_usec: i * 5e6, memory_bytes: (100 + i) * 2 ** 20, disk_bytes: 0, pids: 2, sent_bytes: 0, received_bytes: 0 }));
      return route.fulfill({ json: { step_seconds: 10, samples } });
    });
    await tab("charts");
    const memory = page.getByRole("figure").filter({ hasText: "Memory" });
    await memory.getByText("in use: 399 MiB now").waitFor();
    const slider = page.getByRole("slider", { name: "Memory, at a time" });
    await slider.focus();
    await page.keyboard.press("Home");
    await memory.locator("figcaption").getByText(/\d\d:\d\d:\d\d, in use: 100 MiB$/).waitFor();
    assert.match(await slider.getAttribute("aria-valuetext"), /in use: 100 MiB$/);
    await page.keyboard.press("ArrowRight");
    await memory.locator("figcaption").getByText(/in use: 101 MiB$/).waitFor();
    await look(page, "chart-at");
    await slider.blur();
    await memory.getByText("in use: 399 MiB now").waitFor();
    await slider.hover();
    await memory.locator("figcaption").getByText(/\d\d:\d\d:\d\d, in use: \d+ MiB$/).waitFor();
    await page.mouse.move(5, 5);
    await memory.getByText("in use: 399 MiB now").waitFor();
  });
});
