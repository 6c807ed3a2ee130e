// What once went wrong on the page.
import assert from "node:assert/strict";
import { api, context, daemon, run, step, url, watch } from "./page.mjs";

await run(async (page) => {
  const create = async (network, more = async () => {}) => {
    await page.goto(url);
    await page.getByRole("button", { name: "New session" }).click();
    await page.getByLabel("Network").selectOption(network);
    await more();
    const texts = {};
    for (const language of ["curl", "CLI", "Python", "TypeScript"]) {
      await page.getByRole("tab", { name: language }).click();
      texts[language] = await page.locator("[role=dialog] pre").innerText();
    }
    const sent = page.waitForRequest((request) => request.method() === "POST" && request.url().endsWith("/v1/sessions"));
    await page.getByRole("button", { name: "Create", exact: true }).click();
    const body = (await sent).postDataJSON();
    await page.waitForURL(/\/sessions\//);
    return { body, texts };
  };
  await step("the network that was chosen is asked for, and in the code too", async () => {
    const none = await create("none");
    assert.deepEqual(none.body.network, { mode: "none" });
    for (const [language, text] of Object.entries(none.texts)) assert.match(text, /none/, language);
    const unsaid = await create("the default");
    assert.equal(unsaid.body.network, undefined);
    for (const [language, text] of Object.entries(unsaid.texts)) assert.doesNotMatch(text, /network/, language);
    const allow = await create("allow", () => page.getByLabel("Allowed hosts").fill("@pip, *.example.org"));
    assert.deepEqual(allow.body.network, { mode: "allow", allow: ["@pip", "*.example.org"] });
    assert.match(allow.texts.CLI, /--network allow --allow '@pip' --allow '\*\.example\.org'|--network allow --allow @pip --allow '\*\.example\.org'/);
  });

  await step("limits and labels are asked for, and in the code too", async () => {
    const all = await create("none", async () => {
      await page.getByLabel("Memory in MiB").fill("256");
      await page.getByLabel("Disk in MiB").fill("128");
      await page.getByLabel("Labels").fill("team = search, formula=a=b,note");
    });
    assert.deepEqual([all.body.memory_mb, all.body.disk_mb, all.body.labels], [256, 128, { team: "search", formula: "a=b", note: "" }]);
    assert.match(all.texts.CLI, /--memory 256 --disk 128 --on-expiry stop --label team=search --label formula=a=b --label note= --network none/);
    assert.match(all.texts.Python, /memory_mb=256, disk_mb=128, (on_expiry="stop", )?labels=\{"team":"search","formula":"a=b","note":""\}/);
    assert.match(all.texts.curl, /"disk_mb":128,("on_expiry":"stop",)?"labels":\{"team":"search"/);
  });

  await step("characters that are not seen are marked", async () => {
    const marked = ["\u00ad", "\u034f", "\u061c", "\u115f", "\u17b4", "\u180e", "\u200b", "\u200d", "\u202e", "\u2060", "\u2066", "\u2028", "\u3164", "\ufe0f", "\ufeff", "\uffa0", "\u{1d173}", "\u{e0041}", "\u0085", "\u001b"];
    const session = await api("POST", "/v1/sessions", { image: "base", name: "marks" });
    await api("POST", `/v1/sessions/${session.id}/exec`, { cmd: `echo '${marked.join(".")}'` });
    await page.goto(`${url}/sessions/${session.id}?tab=commands`);
    await page.getByText("\u27e800ad\u27e9").first().waitFor();
    const text = await page.locator("main").innerText();
    for (const c of marked) {
      assert.ok(!text.includes(c), `U+${c.codePointAt(0).toString(16)} stands in the page`);
      assert.ok(text.includes(`\u27e8${c.codePointAt(0).toString(16).padStart(4, "0")}\u27e9`), `U+${c.codePointAt(0).toString(16)} is not marked`);
    }
  });

  const session = await api("POST", "/v1/sessions", { image: "base", name: "terms" });
  const rows = page.locator("[data-terminal]:visible .xterm-rows");
  const type = async (text) => {
    await page.locator("[data-terminal]:visible").click();
    await page.keyboard.type(text);
  };
  await page.goto(`${url}/sessions/${session.id}`);
  await step("closing a terminal closes that one, and its program", async () => {
    await rows.getByText("#").first().waitFor();
    await type("echo first-$((1+1)); sleep 3111 &\n");
    await rows.getByText("first-2").first().waitFor();
    await page.getByRole("button", { name: "New terminal" }).click();
    await rows.getByText("#").first().waitFor();
    await type("echo second-$((1+1))\n");
    await rows.getByText("second-2").first().waitFor();
    await page.getByRole("button", { name: "Close terminal 1" }).click();
    await rows.getByText("second-2").first().waitFor();
    for (let left = "3111"; left.includes("3111"); ) left = (await api("POST", `/v1/sessions/${session.id}/exec`, { cmd: "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; true" })).output.replaceAll(/cat [^;]*/g, "");
  });

  await step("a terminal comes back after kill -9 of the daemon, without a reload, and has what was typed meanwhile", async () => {
    await page.evaluate(() => (window.same = true));
    await daemon("kill");
    await page.getByText("The connection has broken").waitFor();
    await type("echo mean");
    await page.keyboard.type("while-$((1+1))\n");
    await daemon("start");
    await page.getByText("The connection has broken").waitFor({ state: "detached" });
    await rows.getByText("meanwhile-2").first().waitFor();
    await type("echo third-$((1+1))\n");
    await rows.getByText("third-2").first().waitFor();
    assert.equal(await rows.getByText("second-2").count(), 1, "what was there is there once");
    assert.equal(await page.evaluate(() => window.same), true);
  });

  await step("a terminal has the colours of the page", async () => {
    const background = () => page.locator("[data-terminal]:visible").evaluate((box) => [...box.querySelectorAll("*")].map((one) => getComputedStyle(one).backgroundColor).join());
    const before = await background();
    await page.getByRole("button", { name: /Dark colours|Light colours/ }).click();
    await page.waitForTimeout(200);
    assert.notEqual(await background(), before);
  });

  await step("find in a terminal", async () => {
    await type("");
    await page.keyboard.press("Control+Shift+F");
    await page.getByRole("searchbox", { name: "Find in the terminal" }).fill("nothing-like-it");
    await page.keyboard.press("Enter");
    await page.getByText("not found").waitFor();
    await page.getByRole("searchbox", { name: "Find in the terminal" }).fill("third-2");
    await page.keyboard.press("Enter");
    await page.getByText("not found").waitFor({ state: "detached" });
    await page.keyboard.press("Escape");
  });

  await step("copy works where the browser has no clipboard for pages", async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const other = await context.newPage();
    watch(other);
    await other.addInitScript(() => {
      window.real = navigator.clipboard;
      Object.defineProperty(navigator, "clipboard", { value: undefined });
    });
    await other.goto(`${url}/sessions/${session.id}`);
    await Promise.all([other.getByText("copied").waitFor(), other.getByRole("button", { name: `Copy: ${session.id}` }).click()]);
    assert.equal(await other.evaluate(() => window.real.readText()), session.id);
    await other.close();
  });

  await step("an event that comes before the list is not lost", async () => {
    const other = await context.newPage();
    watch(other);
    let answered;
    await other.route("**/v1/sessions", async (route) => {
      const old = await route.fetch(); // as it is now
      await answered;
      await route.fulfill({ response: old });
    });
    let go;
    answered = new Promise((done) => (go = done));
    const asked = other.waitForRequest("**/v1/sessions");
    await other.goto(url);
    await asked;
    await other.waitForTimeout(500);
    await api("POST", "/v1/sessions", { image: "base", name: "meanwhile" });
    await other.waitForTimeout(500);
    go();
    await other.getByRole("link", { name: "meanwhile" }).waitFor();
    await other.close();
  });

  await step("/sessions is the list", async () => {
    await page.goto(`${url}/sessions`);
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
  });
});
