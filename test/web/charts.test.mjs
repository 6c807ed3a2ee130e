// What a session used, drawn. The samples are made up here: there are none of an hour in a test.
import assert from "node:assert/strict";
import { api, look, run, step, url } from "./page.mjs";

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base", name: "charts", memory_mb: 256 });
  await step("nothing yet", async () => {
    // On a loaded machine the first sample is there before the page.
    await page.route("**/stats/history*", (route) => route.fulfill({ json: { step_seconds: 10, samples: [] } }));
    await page.goto(`${url}/sessions/${session.id}?tab=charts`);
    await page.getByText("Nothing yet", { exact: true }).waitFor();
    await look(page, "charts-empty");
    await page.unroute("**/stats/history*");
  });

  await step("what it used", async () => {
    const asked = [];
    await page.route("**/stats/history*", (route) => {
      const seconds = Number(new URL(route.request().url()).searchParams.get("step"));
      asked.push(seconds);
      const begun = Date.now() - 300 * seconds * 1000;
      // Half a processor, then a hole of a hundred steps, then it begins anew with a quarter.
      const samples = Array.from({ length: 300 }, (_, i) => i).filter((i) => i < 100 || i >= 200).map((i) => ({
        at: new Date(begun + i * seconds * 1000).toISOString(), cpu_usage_usec: (i < 100 ? i * 0.5 : (i - 200) * 0.25) * seconds * 1e6,
        memory_bytes: (i < 100 ? 64 : 128) << 20, disk_bytes: i << 20, pids: 2, sent_bytes: i * seconds * 1024, received_bytes: i * seconds * 2048,
      }));
      return route.fulfill({ json: { step_seconds: seconds, samples } });
    });
    await page.reload();
    await page.getByText("in use: 0.25 now, at most 0.50").waitFor();
    await page.getByText("in use: 128 MiB now, at most 128 MiB; limit 256 MiB").waitFor();
    await page.getByText("sent: 1.0 KiB now").waitFor();
    await page.locator("canvas").nth(3).waitFor();
    assert.equal(await page.locator("canvas").count(), 4);
    const day = page.waitForRequest(/stats\/history.*step=60/);
    await page.getByLabel("Time", { exact: true }).selectOption("the last day");
    await day;
    await page.locator("canvas").nth(3).waitFor();
    assert.ok(asked.includes(10), `${asked}`);
    await look(page, "charts");
  });

  await step("the colours are the system's until somebody chooses", async () => {
    const button = (name) => page.getByRole("button", { name });
    await page.emulateMedia({ colorScheme: "dark" });
    await button("Light colours").waitFor();
    await page.emulateMedia({ colorScheme: "light" });
    await button("Dark colours").click();
    await button("Light colours").waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  });
});
