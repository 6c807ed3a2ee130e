// The documentation: without a key, in the console's colours, and with requests that are
// sent from the reference in the name of who has signed in.
import assert from "node:assert/strict";
import { api, context, evil, key, look, run, signIn, step, url } from "./page.mjs";

const docs = `${url}/docs`;

await run(async (page) => {
  await step("pages need no key and load nothing from elsewhere", async () => {
    for (const [path, name] of [["/", "docs"], ["/quickstart.html", "docs-quickstart"], ["/sdk.html", "docs-sdk"], ["/configuration.html", "docs-configuration"], ["/decisions/index.html", "docs-decisions"], ["/api.html", "docs-api"]]) {
      const answer = await page.goto(docs + path);
      assert.equal(answer.status(), 200);
      await page.locator("main h1").waitFor();
      await look(page, name);
    }
  });

  await step("the switch of colours is the console's", async () => {
    await page.emulateMedia({ colorScheme: "dark" });
    await page.goto(`${docs}/quickstart.html`);
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await page.getByRole("button", { name: "Light colours" }).click();
    assert.notEqual(await background(), dark);
    await page.goto(url);
    await page.getByRole("button", { name: "Use an API key" }).waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
    await page.goto(`${docs}/quickstart.html`);
    await page.getByRole("button", { name: "Dark colours" }).click();
    assert.equal(await background(), dark);
    await page.evaluate(() => localStorage.removeItem("theme"));
  });

  await step("code can be copied", async () => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.goto(`${docs}/quickstart.html`);
    const block = page.locator(".code").filter({ hasText: "bin/sandkasten doctor" });
    await block.getByRole("button", { name: "Copy" }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "sudo bin/sandkasten doctor");
  });

  await step("the choice of a language holds, and needs no mouse", async () => {
    await page.goto(`${docs}/sdk.html`);
    const tabs = page.getByRole("tablist").first();
    await tabs.getByRole("tab", { name: "Python" }).click();
    await page.getByRole("tabpanel", { name: "Python" }).first().waitFor();
    assert.ok(await page.getByText("new SandboxClient().createSession").first().isHidden());
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tabpanel", { name: "TypeScript" }).first().waitFor();
    await page.reload();
    await page.getByRole("tab", { name: "TypeScript", selected: true }).first().waitFor();
  });

  await step("without JavaScript they are headings", async () => {
    const plain = await context.browser().newContext({ javaScriptEnabled: false });
    const still = await plain.newPage();
    await still.goto(`${docs}/sdk.html`);
    for (const name of ["curl", "Command line", "Python", "TypeScript", "Go"]) await still.getByRole("heading", { name, exact: true }).first().waitFor();
    assert.ok(await still.getByText("SyncSandboxClient").first().isVisible());
    await plain.close();
  });

  await step("search", async () => {
    await page.goto(`${docs}/decisions/index.html`);
    await page.keyboard.press("/");
    await page.keyboard.type("machine encryption_key_file");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("snapshots.encryption_key_file");
    await page.locator("#found a").first().waitFor();
    await look(page, "docs-search");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL(/\/docs\/[a-z]+\.html#/);
    const box = page.getByRole("searchbox", { name: "Search the documentation" });
    for (const words of ["network", "snapshot", "driver"]) {
      await box.fill(words);
      await page.getByText(/^[0-9]+ pages found$/).waitFor();
      const paths = await page.locator("#found a").evaluateAll((links) => links.map((link) => new URL(link.href).pathname));
      assert.equal(new Set(paths).size, paths.length, `of each page one hit: ${paths}`);
      const records = paths.map((path) => path.includes("/decisions/"));
      assert.deepEqual(records, records.toSorted(), `guides first: ${paths}`);
    }
    await box.fill(evil);
    await page.getByText("No section has all of these words").waitFor();
  });

  const operation = (id) => page.locator(`#${id}`);
  await step("the reference needs no key, and sends nothing before a sign-in", async () => {
    const sent = [];
    page.on("request", (request) => /\/v1\//.test(request.url()) && sent.push(new URL(request.url()).pathname));
    await page.goto(`${docs}/reference.html#list-sessions`);
    await operation("list-sessions").getByText("Sign in in the").waitFor();
    assert.equal(await operation("list-sessions").getByRole("button", { name: "Send GET" }).count(), 0);
    assert.deepEqual([...new Set(sent)], ["/v1/auth/session"]);
    const status = await page.evaluate(() => fetch("/v1/sessions", { credentials: "same-origin" }).then(({ status }) => status));
    assert.equal(status, 401);
    await page.getByRole("heading", { name: "Sessions", exact: false }).first().waitFor();
    await look(page, "docs-reference");
    await page.getByRole("searchbox", { name: "Filter operations" }).fill("snapshots download");
    assert.equal(await page.locator(".operation:visible").count(), 1);
    assert.equal(await page.locator(".operation").first().getAttribute("id"), "list-sessions");
    await page.getByRole("searchbox", { name: "Filter operations" }).fill("");
  });

  await step("every operation can be opened", async () => {
    const count = await page.evaluate(() => {
      const all = [...document.querySelectorAll(".operation")];
      for (const one of all) one.open = true;
      return all.length;
    });
    assert.ok(count > 100, `${count} operations`);
    await operation("create-session").getByRole("heading", { name: "Request: application/json" }).waitFor();
    assert.match(await operation("create-session").innerText(), /memory_mb[^]*Idempotency-Key|Idempotency-Key[^]*memory_mb/);
    await page.waitForFunction(() => [...document.querySelectorAll(".operation")].every((one) => one.children.length > 1));
  });

  await step("each operation is shown in the languages of its clients", async () => {
    const names = ["curl", "Command line", "Python", "TypeScript", "Go"];
    const shown = await page.locator(".operation").evaluateAll((all) => all.map((one) => [...one.querySelectorAll("[role=tab]")].map((tab) => tab.textContent).join()));
    assert.deepEqual([...new Set(shown)], [names.join()]);
    const tab = (id, name) => operation(id).getByRole("tab", { name, exact: true });
    const panel = (id) => operation(id).getByRole("tabpanel");
    for (const [name, text] of [["Python", 'client = SyncSandboxClient()\nclient.create_session(image="base")'], ["TypeScript", "await client.createSession("], ["Go", "client.CreateSession(ctx, "], ["Command line", "sandkasten create base"], ["curl", "curl -X POST"]]) {
      await tab("create-session", name).click();
      assert.ok((await panel("create-session").innerText()).includes(text), `${name}: ${await panel("create-session").innerText()}`);
    }
    await tab("exec", "TypeScript").click();
    assert.match(await panel("exec").innerText(), /new SandboxClient\(\);\nconst session = await client.getSession\("SESSION"\);\nawait session.exec\(/);
    assert.match(await panel("healthz").innerText(), /Not in this client; use curl/);
    await page.goto("about:blank");
    await page.goto(`${docs}/reference.html#exec`);
    await tab("exec", "TypeScript").and(page.locator("[aria-selected=true]")).waitFor();
    await panel("exec").scrollIntoViewIfNeeded();
    await look(page, "docs-reference-languages");
    await tab("exec", "curl").click();
    await page.goto(`${docs}/reference.html#list-sessions`);
  });

  await step("signed in: a GET and a POST", async () => {
    const other = await context.newPage();
    await signIn(other);
    await page.bringToFront();
    await page.reload();
    const list = operation("list-sessions");
    await list.getByRole("button", { name: "Send GET" }).click();
    await list.locator(".answer strong", { hasText: /^200 / }).waitFor();

    await page.goto(`${docs}/reference.html#create-session`);
    const create = operation("create-session");
    await create.getByLabel("Body").fill(JSON.stringify({ image: "base", name: "from-the-docs", labels: { note: "<img src=x onerror=window.pwned=1>" } }));
    await create.getByRole("button", { name: "Send POST" }).click();
    await create.locator(".answer strong", { hasText: /^201 / }).waitFor();
    const shown = await create.locator(".answer").innerText();
    assert.ok(shown.includes("<img src=x"), shown);
    await look(page, "docs-try");
    const made = (await api("GET", "/v1/sessions")).find(({ name }) => name === "from-the-docs");
    assert.ok(made, "no session was made");

    await page.goto(`${docs}/reference.html#exec`);
    await operation("exec").getByLabel("id (path, required)").fill(made.id);
    await operation("exec").getByLabel("Body").fill(JSON.stringify({ cmd: `printf %s '${evil}'` }));
    await operation("exec").getByRole("button", { name: "Send POST" }).click();
    await operation("exec").locator(".answer strong", { hasText: /^200 / }).waitFor();
    const printed = await operation("exec").locator(".answer").innerText();
    assert.ok(printed.includes("<img src=x") && printed.includes("\u27e8202e\u27e9") && !printed.includes("\u202e"), printed);

    await page.goto(`${docs}/reference.html#exec-stream`);
    const stream = operation("exec-stream");
    await stream.getByLabel("id (path, required)").fill(made.id);
    await stream.getByLabel("Body").fill(JSON.stringify({ cmd: "echo seen-$((40+2)); sleep 100" }));
    await stream.getByRole("button", { name: "Send POST" }).click();
    await stream.locator(".answer").getByText("seen-42").waitFor();
    await stream.getByRole("button", { name: "Stop" }).click();
    await stream.getByRole("button", { name: "Send POST", disabled: false }).waitFor();
    assert.equal(await stream.getByRole("alert").count(), 0);

    await page.goto(`${docs}/reference.html#get-session`);
    await operation("get-session").getByLabel("id (path, required)").fill("../info");
    await operation("get-session").getByRole("button", { name: "Send GET" }).click();
    await operation("get-session").locator(".answer strong", { hasText: /^404 / }).waitFor();
    await page.goto(`${docs}/reference.html#destroy-session`);
    await operation("destroy-session").getByLabel("id (path, required)").fill(made.id);
    await operation("destroy-session").getByRole("button", { name: "Send DELETE" }).click();
    await operation("destroy-session").locator(".answer strong", { hasText: /^200 / }).waitFor();
    const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]));
    assert.ok(!stored.includes(key) && !stored.includes("csrf"), stored);

    await other.getByRole("button", { name: "Sign out" }).click();
    await operation("destroy-session").getByText("Sign in in the").waitFor();
    assert.equal(await page.getByRole("button", { name: /^Send/ }).count(), 0);
    await other.close();
  });
}, false);
