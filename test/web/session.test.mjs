// The tabs of a session: what runs, what listens, what it reaches, what was saved of it.
import assert from "node:assert/strict";
import { api, evil, look, run, step, url } from "./page.mjs";

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base", name: "subject" });
  const at = `/v1/sessions/${session.id}`;
  const tab = (name) => page.goto(`${url}/sessions/${session.id}?tab=${name}`);
  const dialog = page.getByRole("dialog");

  await step("output streams while a command runs, from its start", async () => {
    await api("POST", `${at}/processes`, { cmd: ["sh", "-c", `printf '%s\\n' '${evil}'; while [ ! -e go ]; do sleep 0.1; done; printf '\\033[31mlater\\033[0m\\n'; exit 3`], background: true });
    await tab("commands");
    await page.getByRole("button", { name: /while/ }).click();
    await page.getByLabel("Output").getByText("\u27e8202e\u27e9").waitFor();
    assert.equal(await page.getByLabel("Output").getByText("later").count(), 0);
    await api("POST", `${at}/exec`, { cmd: "touch go" });
    await page.getByLabel("Output").getByText("later").waitFor();
    await page.getByText("\u2715 3").waitFor();
    assert.ok(!(await page.getByLabel("Output").innerText()).includes("[31m"));
    await look(page, "session-commands");
  });

  await step("commands are kept while the page is there, and drawn as far as they are seen", async () => {
    for (let i = 0; i < 75; i++) {
      await api("POST", `${at}/exec`, { cmd: `echo ${i}` });
      await page.waitForTimeout(70); // faster ones are told as a number only
    }
    await page.getByText(/^77 of 77$/).waitFor(); // the daemon keeps 64
    assert.ok((await page.getByRole("listitem").count()) < 60);
    await page.getByRole("searchbox").fill("echo 0");
    await page.getByText(/^1 of 77$/).waitFor();
  });

  await step("processes", async () => {
    await api("POST", `${at}/processes`, { cmd: ["sh", "-c", "sleep 1000", evil], background: true });
    await tab("processes");
    await page.getByText("\u27e8202e\u27e9").first().waitFor();
    await page.getByText("/workspace").first().waitFor();
    await look(page, "session-processes");
    await page.getByRole("button", { name: /^Signal sh/ }).click();
    await page.getByLabel("Signal", { exact: true }).selectOption("KILL");
    await look(page, "session-signal");
    await dialog.getByRole("button", { name: "Send KILL" }).click();
    await page.getByText("No command runs at the moment").waitFor();
    await page.getByRole("button", { name: /^Close shell/ }).click();
    await dialog.getByRole("button", { name: "Close shell" }).click();
    await page.getByText("No shell yet").waitFor();
  });

  await step("ports", async () => {
    await tab("ports");
    await page.getByText("Nothing listens").waitFor();
    await look(page, "session-ports");
    await page.getByLabel("A port that is not listed yet").fill("3000");
    await page.getByRole("button", { name: "Preview", exact: true }).click();
    await dialog.getByRole("button", { name: "Make a link" }).click();
    const link = dialog.getByRole("link", { name: "Open port 3000" });
    await link.waitFor();
    assert.match(await link.getAttribute("href"), /preview_token=skp_/);
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
    await look(page, "session-preview");
  });

  await step("network: a refused host is allowed", async () => {
    await tab("network");
    await page.getByText("No decisions").waitFor();
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Mode").selectOption("allow");
    await page.getByLabel("Allow, one entry a line").fill("not/an entry");
    await page.getByRole("button", { name: "Save" }).click();
    await dialog.getByRole("alert").waitFor();
    await page.getByLabel("Allow, one entry a line").fill("one.example.org\n198.51.100.0/24:443");
    await look(page, "session-network-edit");
    await page.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText("198.51.100.0/24:443").waitFor();
    await api("POST", `${at}/exec`, { cmd: "getent hosts two.example.org || nslookup two.example.org || wget -T 2 -O - http://two.example.org/ || true" });
    await page.getByRole("button", { name: /^Allow two\.example\.org/ }).first().click();
    await dialog.getByText("+ allow: two.example.org").waitFor();
    await look(page, "session-network-allow");
    await dialog.getByRole("button", { name: "Allow" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual((await api("GET", `${at}/network`)).allow.toSorted(), ["198.51.100.0/24:443", "one.example.org", "two.example.org"]);
    await page.getByText("In the list now").first().waitFor();
    assert.equal(await page.getByRole("button", { name: /^Allow two\.example\.org/ }).count(), 0, "what is allowed is not offered again");
    await look(page, "session-network");
  });

  await step("network: a refusal that happens again is one line", async () => {
    const lines = page.getByRole("listitem").filter({ hasText: "three.example.org" });
    for (let n = 0; n < 3; n++) {
      await api("POST", `${at}/exec`, { cmd: "getent hosts three.example.org || true" });
      const all = (await api("GET", `${at}/network/log`)).events.filter(({ name }) => name === "three.example.org");
      const { count } = all.at(-1);
      assert.ok(count > n);
      await (count > 1 ? lines.filter({ hasText: new RegExp(`, ${count} times`) }) : lines).first().waitFor();
      assert.equal(await lines.count(), all.length);
    }
  });

  await step("snapshots: make, restore, delete", async () => {
    await tab("snapshots");
    await page.getByText("None yet").waitFor();
    await page.getByRole("button", { name: "New snapshot" }).click();
    await page.getByLabel("Name", { exact: true }).fill("saved");
    await page.getByLabel("Note").fill(`<img src=x onerror="window.pwned=1">`);
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Restore saved" }).waitFor();
    await look(page, "session-snapshots");
    await page.getByRole("button", { name: "Restore saved" }).click();
    await page.getByLabel("Name of the new session").fill("restored");
    await dialog.getByRole("button", { name: "Restore" }).click();
    await page.getByRole("heading", { name: "restored" }).waitFor();
    await tab("snapshots");
    await page.getByRole("button", { name: "Delete saved" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByText("None yet").waitFor();
  });

  await step("forks are a tree with links", async () => {
    await page.getByRole("button", { name: "Fork", exact: true }).click();
    await dialog.getByRole("button", { name: "Fork" }).click();
    await page.getByRole("list", { name: "Forks" }).getByRole("link").first().click();
    await page.getByRole("list", { name: "Forks" }).getByRole("link", { name: "subject" }).waitFor();
    await look(page, "session-forks");
  });

  await step("a fork that ends elsewhere is shown as ended", async () => {
    await tab("snapshots");
    const forks = page.getByRole("list", { name: "Forks" });
    const fork = (await api("GET", "/v1/sessions")).find(({ forked_from }) => forked_from === session.id);
    await forks.getByText("running").nth(1).waitFor();
    await api("POST", "/v1/sessions/bulk", { action: "destroy", ids: [fork.id] });
    await forks.getByText("destroyed").waitFor();
  });

  await step("limits", async () => {
    await tab("limits");
    const before = (await api("GET", at)).ttl_seconds;
    await page.getByRole("button", { name: "Add an hour" }).click();
    await page.getByText("Saved").waitFor();
    assert.equal((await api("GET", at)).ttl_seconds, before + 3600);
    await page.getByLabel("Expires after seconds without activity").fill("999");
    const patched = page.waitForResponse((answer) => answer.request().method() === "PATCH");
    await page.getByRole("button", { name: "Save" }).click();
    await patched;
    assert.equal((await api("GET", at)).ttl_seconds, 999);
    await page.getByLabel("Expires at an age of seconds").fill("86400");
    await api("PATCH", at, { ttl_seconds: 888, on_idle: "stop" });
    const ttl = page.getByLabel("Expires after seconds without activity");
    await page.waitForFunction((input) => input.value === "888", await ttl.elementHandle());
    assert.equal(await page.getByLabel("When it is idle").inputValue(), "stop");
    assert.equal(await page.getByLabel("Expires at an age of seconds").inputValue(), "86400", "what is typed stays");
    const sent = page.waitForRequest((request) => request.method() === "PATCH");
    await page.getByRole("button", { name: "Save" }).click();
    assert.deepEqual((await sent).postDataJSON(), { lifetime_seconds: 86400 }, "only what was changed is sent");
    await page.getByText("Saved").waitFor();
    assert.equal(await page.getByLabel("When it expires").inputValue(), (await api("GET", at)).on_expiry);
    for (const then of ["stop", "destroy"]) {
      if ((await api("GET", at)).on_expiry === then) continue;
      await page.getByLabel("When it expires").selectOption(then);
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText("Saved").waitFor();
      assert.equal((await api("GET", at)).on_expiry, then);
    }
    await look(page, "session-limits");
  });

  await step("undo of the stop of a paused session pauses it again", async () => {
    await api("POST", `${at}/pause`);
    await page.getByRole("button", { name: "resume", exact: true }).waitFor();
    await page.getByRole("button", { name: "stop", exact: true }).click();
    await page.getByRole("button", { name: "Undo" }).click();
    await page.getByText("Paused subject").waitFor();
    assert.equal((await api("GET", at)).status, "paused");
    await page.reload();
  });

  await step("delete a stopped session, which says what is lost and kept", async () => {
    await api("POST", `${at}/stop`);
    await page.getByText("stopped").first().waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    await dialog.getByText("All of its files.").waitFor();
    await dialog.getByText("It has no snapshots.").waitFor();
    await look(page, "session-delete");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
  });
});
