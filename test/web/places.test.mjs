// Pages for what is beside sessions, as an admin and as a user see them.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { api, context, look, patience, run, step, url } from "./page.mjs";

const hostile = '<img src=x onerror="window.pwned=1">';

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base" });
  await api("POST", "/v1/users", { name: "alice" });
  const { key } = await api("POST", "/v1/keys", { user: "alice" });
  const rows = page.getByRole("row");

  await step("no snapshots", async () => {
    await page.goto(`${url}/snapshots`);
    await page.getByText("No snapshots").waitFor();
    await look(page, "snapshots-empty");
  });

  await step("a snapshot appears, becomes a session and is deleted", async () => {
    await api("POST", `/v1/sessions/${session.id}/snapshots`, { label: hostile });
    await rows.filter({ hasText: hostile }).waitFor();
    await look(page, "snapshots");
    await page.getByRole("button", { name: /^New session of/ }).click();
    await page.waitForURL(/\/sessions\//);
    await page.goto(`${url}/snapshots`);
    await page.getByRole("button", { name: /^Delete/ }).click();
    await page.getByText("The files that it keeps are lost").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No snapshots").waitFor();
  });

  await step("import, build and delete images", async () => {
    await page.goto(`${url}/images`);
    await rows.filter({ hasText: "base" }).first().waitFor();
    const dir = mkdtempSync(join(tmpdir(), "image-"));
    mkdirSync(join(dir, "root/bin"), { recursive: true });
    writeFileSync(join(dir, "root/bin/sh"), "#!", { mode: 0o755 });
    execFileSync("tar", ["-C", join(dir, "root"), "-cf", join(dir, "root.tar"), "."]);
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.getByLabel("Name", { exact: true }).fill("mine");
    await page.getByLabel("Tar file").setInputFiles({ name: "root.tar", mimeType: "application/x-tar", buffer: readFileSync(join(dir, "root.tar")) });
    await look(page, "images-import");
    // While an import is under way the browser asks before it leaves, and so does the page before Cancel or Escape ends it.
    const asksToLeave = (wanted) => page.waitForFunction((wanted) => dispatchEvent(new Event("beforeunload", { cancelable: true })) !== wanted, wanted);
    await page.route("**/v1/images/import*", () => {}, { times: 1 }); // it has no answer
    const asked = page.waitForRequest(/images\/import/);
    const ended = page.waitForEvent("requestfailed", (request) => request.url().includes("/images/import"));
    await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
    await asked;
    await asksToLeave(true);
    await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Go on" }).click();
    await asksToLeave(true);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "End it" }).click();
    await ended;
    await asksToLeave(false);
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.getByLabel("Name", { exact: true }).fill("mine");
    await page.getByLabel("Tar file").setInputFiles({ name: "root.tar", mimeType: "application/x-tar", buffer: readFileSync(join(dir, "root.tar")) });
    await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
    await page.getByRole("button", { name: "Delete mine" }).waitFor();
    await page.getByRole("button", { name: "Build", exact: true }).click();
    await page.getByLabel("Name", { exact: true }).fill("broken");
    await page.getByLabel("Recipe").fill("from: no-such-image-here\n");
    await page.getByRole("dialog").getByRole("button", { name: "Build" }).click();
    await Promise.race([page.getByRole("dialog").getByRole("alert").waitFor(), rows.filter({ hasText: "broken" }).getByText("failed").waitFor()]);
    await page.keyboard.press("Escape");
    await look(page, "images");
    await page.getByRole("button", { name: "Delete mine" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete mine" }).waitFor({ state: "detached" });
    await page.getByRole("button", { name: /^Delete .*base/ }).first().click();
    await page.getByText("use it, and the daemon refuses").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("is in use by the sessions").waitFor();
  });

  await step("workspaces", async () => {
    await page.getByRole("link", { name: "Workspaces" }).click();
    await page.getByText("No workspaces").waitFor();
    await page.getByRole("searchbox").fill("project");
    await page.getByRole("button", { name: "New workspace" }).click();
    await rows.filter({ hasText: "project" }).waitFor();
    await page.getByRole("searchbox").fill("not an id");
    await page.getByRole("button", { name: "New workspace" }).click();
    await page.getByRole("alert").waitFor();
    await look(page, "workspaces");
    await page.getByRole("button", { name: "Delete project" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No workspaces").waitFor();
  });

  await step("secrets", async () => {
    await page.getByRole("link", { name: "Secrets" }).click();
    await page.getByText("No secrets").waitFor();
    await page.getByLabel("Name", { exact: true }).fill("api");
    await page.getByLabel("Hosts that get it").fill("api.example.org *.example.net");
    await page.getByLabel("Value").fill("Bearer of-great-worth");
    await page.getByRole("button", { name: "Set secret" }).click();
    await rows.filter({ hasText: "api.example.org, *.example.net" }).waitFor();
    assert.ok(!(await page.content()).includes("of-great-worth"));
    await look(page, "secrets");
    await page.getByRole("button", { name: "Delete api" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No secrets").waitFor();
  });

  await step("users, their quotas and their keys", async () => {
    await page.getByRole("link", { name: "Users and keys" }).click();
    await page.getByRole("button", { name: "Add user" }).waitFor(); // the page before has a name, too
    await page.getByLabel("Name", { exact: true }).fill("bob");
    await page.getByRole("button", { name: "Add user" }).click();
    await page.getByRole("button", { name: "Change bob" }).click();
    await page.getByLabel("Sessions", { exact: true }).fill("3");
    await look(page, "users-change");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal((await api("GET", "/v1/users/bob")).quota.max_sessions, 3);
    await page.getByRole("button", { name: "Change bob" }).click();
    await page.getByLabel("Sessions", { exact: true }).fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal((await api("GET", "/v1/users/bob")).quota?.max_sessions, undefined);
    await page.getByLabel("What it is for").fill(hostile);
    await page.getByLabel("Of the user").selectOption("bob");
    await page.getByRole("button", { name: "New key" }).click();
    const made = await page.getByRole("dialog").locator("pre").innerText();
    const asBob = () => fetch(`${url}/v1/me`, { headers: { Authorization: `Bearer ${made}` } }).then(({ status }) => status);
    assert.equal(await asBob(), 200);
    await page.mouse.click(5, 5); // beside it, which loses nothing
    await page.getByRole("button", { name: "I have it" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    await look(page, "users");
    await page.getByRole("button", { name: `Revoke ${hostile}` }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await rows.filter({ hasText: hostile }).getByText("revoked").waitFor();
    assert.equal(await asBob(), 401);
    await page.getByRole("button", { name: "Delete bob" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete bob" }).waitFor({ state: "detached" });
  });

  await step("usage", async () => {
    await api("PATCH", "/v1/users/alice", { quota: { max_sessions: 10 } });
    await page.goto(`${url}/usage?user=alice`);
    await rows.filter({ hasText: /^Sessions/ }).getByText("10").waitFor();
    await page.getByRole("meter", { name: "Sessions", exact: true }).waitFor();
    await look(page, "usage");
  });

  await step("audit", async () => {
    await page.getByRole("link", { name: "Audit" }).click();
    await rows.filter({ hasText: "POST /v1/users" }).first().waitFor();
    await look(page, "audit");
    await page.getByLabel("Only what failed").click();
    await page.waitForURL(/failed=true/);
    await rows.filter({ hasText: "POST /v1/workspaces" }).first().waitFor();
    await rows.filter({ hasText: "POST /v1/users" }).first().waitFor({ state: "detached" });
    await page.reload();
    assert.ok(await page.getByLabel("Only what failed").isChecked());
    await page.getByLabel("Owner").fill("nobody-of-this-name");
    await page.getByText("Nothing matches").waitFor();
  });

  await step("the host as it is", async () => {
    await page.getByRole("link", { name: "Host" }).click();
    await page.getByRole("heading", { name: "Findings" }).waitFor();
    // The daemon is used here and nothing is in disorder: whatever the machine of the test lacks, fsck has nothing to say.
    await page.getByText(/^examined/).waitFor();
    assert.deepEqual((await api("GET", "/v1/host/findings")).findings.filter(({ source }) => source === "fsck"), []);
    let samples = [];
    for (const end = Date.now() + patience; samples.length === 0 && Date.now() < end; await page.waitForTimeout(500)) ({ samples } = await api("GET", "/v1/host/history?step=10"));
    assert.ok(samples.reduce((sum, { requests }) => sum + requests, 0) > 0 && samples.at(-1).sessions.running >= 1, JSON.stringify(samples));
    await page.reload();
    await page.getByRole("meter", { name: "Memory" }).waitFor();
    await page.getByText("None are kept.").waitFor();
  });

  await step("a full host with findings", async () => {
    const asked = [];
    await page.route("**/v1/host/history*", (route) => {
      const seconds = Number(new URL(route.request().url()).searchParams.get("step"));
      asked.push(seconds);
      const begun = Date.now() - 300 * seconds * 1000;
      const samples = Array.from({ length: 301 }, (_, i) => ({
        at: new Date(begun + i * seconds * 1000).toISOString(), seconds, cpu_used: 1 + Math.sin(i / 20), cpu_limit: 8, memory_bytes: (9 + i / 50) * 2 ** 30, memory_limit: 2 ** 34, disk_bytes: 90 * 2 ** 30, disk_limit: 100 * 2 ** 30,
        sessions: { running: 12, paused: 2, stopped: 5 }, sessions_limit: 20, pool_ready: i % 4, pool_wanted: 3, creates: i % 3 === 0 ? 2 : 0, create_errors: 0, ...(i % 3 === 0 ? { create_p50_ms: 9.6, create_p90_ms: 15, create_p99_ms: 40 + (i % 7) } : {}),
        execs: 4, exec_oom_kills: 0, exec_p50_ms: 38, exec_p90_ms: 420, exec_p99_ms: 5120, requests: 60, request_errors: i === 299 ? 3 : 0,
      })).filter((_, i) => i < 100 || i > 150);
      return route.fulfill({ json: { step_seconds: seconds, samples } });
    });
    await page.route("**/v1/host/findings", (route) =>
      route.fulfill({ json: { at: new Date().toISOString(), findings: [
        { source: "fsck", severity: "fail", what: "snapshot", where: hostile, expected: "its archive", found: "none", mend: "remove the snapshot: its files are lost", command: "sandkasten snapshot rm abcdefghijklmnopqrstuvwxyz" },
        { source: "doctor", severity: "warn", what: "processes", found: "kernel.pid_max is 4096, for up to 1000 sessions", mend: "sysctl -w kernel.pid_max=16000 and write kernel.pid_max=16000 into /etc/sysctl.d/sandkasten.conf, or lower max_sessions", command: "sysctl -w kernel.pid_max=16000" },
        { source: "doctor", severity: "warn", what: "clock", found: "not synchronised", mend: "run a time service: expiry is kept as wall-clock time" },
      ] } }));
    await page.route("**/v1/pool/status", (route) => route.fulfill({ json: { enabled: true, ready: 2, max_ready: 9, unmatched: 0, images: [{ image: "base", auto: true, wanted: 3, ready: 2, hits: 240, misses: 7, make_ms: 9.1 }] } }));
    await page.reload();
    const tile = (name) => page.getByRole("definition").filter({ hasText: name });
    await tile("14 of 20").getByText("12 running, 2 paused, 5 stopped").waitFor();
    await tile("90 GiB of 100 GiB").getByRole("meter", { name: "Disk" }).waitFor();
    await tile("9.6 ms").getByText("p99 46 ms").waitFor();
    await page.getByText("3 requests, 0 creates").waitFor();
    await page.getByText("p99: 46 ms now, at most 46 ms").waitFor();
    await page.getByText("made: 12 now, at most 12").waitFor();
    await page.locator("canvas").nth(9).waitFor();
    assert.equal(await page.locator("canvas").count(), 10);
    const found = page.getByRole("list", { name: "Findings" }).getByRole("listitem");
    await found.nth(2).waitFor();
    assert.equal(await found.count(), 3);
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await Promise.all([page.getByText("copied").waitFor(), found.filter({ hasText: "processes" }).getByRole("button", { name: /^Copy the command/ }).click()]);
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "sysctl -w kernel.pid_max=16000");
    assert.equal(await found.filter({ hasText: "clock" }).getByRole("button").count(), 0);
    await rows.filter({ hasText: "base" }).getByText("3 (learned)").waitFor();
    await look(page, "host");
    await page.getByRole("figure").last().scrollIntoViewIfNeeded();
    await look(page, "host-charts");
    await page.getByLabel("Time", { exact: true }).selectOption("the last day");
    await page.getByText("made: 2 now, at most 2").waitFor();
    assert.ok(asked.includes(10) && asked.includes(60), `${asked}`);
  });

  await step("a host of which nothing is known, and one in order", async () => {
    await page.route("**/v1/host/history*", (route) => route.fulfill({ json: { step_seconds: 10, samples: [] } }));
    await page.route("**/v1/host/findings", (route) => route.fulfill({ status: 501, json: { error: "this daemon does not examine its host", code: "unimplemented" } }));
    await page.reload();
    await page.getByText("Nothing recorded yet").waitFor();
    await page.getByRole("alert").filter({ hasText: "does not examine its host" }).waitFor();
    await page.route("**/v1/host/findings", (route) => route.fulfill({ json: { at: new Date().toISOString(), findings: [] } }));
    await page.getByRole("button", { name: "Look again" }).click();
    await page.getByText("Nothing is wrong").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await look(page, "host-empty");
    await page.unroute("**/v1/host/history*");
    await page.unroute("**/v1/host/findings");
    await page.unroute("**/v1/pool/status");
  });

  await step("a user is offered what a user may do", async () => {
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("button", { name: "Use an API key" }).click();
    await page.getByLabel("API key").fill(key);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("Sign out").waitFor();
    assert.equal(await page.getByRole("link", { name: "Host" }).count(), 0);
    await page.goto(`${url}/audit`);
    await rows.filter({ hasText: "sign" }).first().waitFor();
    // Of an admin's there is only what opens what the user has.
    assert.equal(await rows.filter({ hasText: "admin", hasNotText: "admin into alice" }).count(), 0);
    assert.equal(await page.getByLabel("Owner").count(), 0);
    await page.goto(`${url}/users`);
    await page.getByText("What it is for").waitFor();
    assert.equal(await page.getByRole("button", { name: "Add user" }).count(), 0);
    await look(page, "keys-user");
    await page.goto(`${url}/images`);
    await rows.filter({ hasText: "base" }).first().waitFor();
    for (const name of ["Pull", "Build", "Import", /^Delete/]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, String(name));
    await look(page, "images-user");
    await page.goto(`${url}/host`);
    await page.getByText("For admins").waitFor();
  });
});
