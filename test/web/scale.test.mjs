// What the page of sessions costs: its first load, the daemon with 100 sessions, and the
// browser with 2,000 of them and 50 events a second. The list and the events of the
// latter are made up here, in front of the real daemon, which answers all else.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { cpuSeconds, load, median, plainly } from "./measure.mjs";
import { api, look, run, step, url } from "./page.mjs";

const mostRequests = 16; // of the first load, those that it makes again when the stream of events begins counted once
const mostPlain = 4; // times a page that does next to nothing, where the machine is too busy for half a second
const count = 2000;
const perSecond = 50;
const seconds = 10;

await run(async (page) => {
  const made = await api("POST", "/v1/sessions", { image: "base", name: "model" });
  await page.goto("about:blank"); // so that what is measured is the only page

  const link = (name) => (of) => of.getByRole("link", { name, exact: true });
  await step("the first load is small, fast and calm", async () => {
    const soon = (loads) => median(loads.map(({ paint }) => paint)) < Math.max(500, mostPlain * median(loads.map(({ plain }) => plain)));
    const longest = (loads) => Math.max(200, median(loads.map(({ plain }) => plain)));
    const wanted = (loads) => soon(loads) && Math.max(...loads.map(({ long }) => long)) <= longest(loads);
    let loads = [];
    for (let round = 0; round < 4 && (loads.length === 0 || !wanted(loads)); round++) {
      // A machine that does much else is slow for a while; a page that is slow is so in all rounds.
      if (round > 0) await page.waitForTimeout(5000);
      loads = [];
      for (let i = 0; i < 3; i++) loads.push({ plain: await plainly(), ...(await load("/", link("model"))) });
    }
    const paint = median(loads.map(({ paint }) => paint));
    const plain = median(loads.map(({ plain }) => plain));
    const long = Math.max(...loads.map(({ long }) => long));
    const [{ requests, bytes }] = loads;
    const shift = Math.max(...loads.map(({ shift }) => shift));
    console.log(`${bytes} bytes in ${requests.length} requests, first drawn after ${paint.toFixed(0)} ms (a plain page ${plain.toFixed(0)}), no task longer than ${long.toFixed(0)} ms, moved by ${shift.toFixed(4)}`);
    assert.ok(bytes <= 200 << 10, requests.map(({ url, bytes }) => `${url}: ${bytes}`).join("\n"));
    assert.ok(new Set(requests.map(({ url }) => url)).size <= mostRequests, requests.map(({ url }) => url).join("\n"));
    assert.ok(soon(loads), `first drawn after ${loads.map(({ paint }) => paint)} ms, a plain page after ${loads.map(({ plain }) => plain)}`);
    assert.ok(long <= longest(loads), `a task takes ${long} ms`);
    assert.ok(shift < 0.01, `what is drawn moves: ${loads.flatMap(({ shifted }) => shifted)}`);
    const assets = requests.filter((one) => one.url.startsWith(`${url}/assets/`));
    assert.ok(assets.length >= 4);
    for (const { url: of, headers } of assets) assert.ok(headers["content-encoding"] === "br" && /max-age=31536000.*immutable/.test(headers["cache-control"]), `${of}: ${JSON.stringify(headers)}`);
    for (const { url: of, status } of requests) assert.ok(of.startsWith(`${url}/`) && status === 200, `${status} ${of}`);
  });

  await step("nothing moves when something happens", async () => {
    const { shift, shifted, long } = await load("/", link("model"), async (of) => {
      const row = of.getByRole("row", { name: /model/ });
      for (const [act, status] of [["pause", "paused"], ["resume", "running"], ["stop", "stopped"], ["start", "running"]]) {
        await api("POST", `/v1/sessions/${made.id}/${act}`);
        await row.getByText(status).waitFor();
      }
      const second = await api("POST", "/v1/sessions", { image: "base", name: "second" });
      await link("second")(of).waitFor();
      await api("DELETE", `/v1/sessions/${second.id}`);
      await link("second")(of).waitFor({ state: "detached" });
      await of.waitForTimeout(6000); // what is asked every five seconds
    });
    console.log(`moved by ${shift.toFixed(4)}, no task longer than ${long.toFixed(0)} ms`);
    assert.ok(shift < 0.01, `${shift}: ${shifted}`);
  });

  const many = 100;
  await step(`an open page costs the daemon little with ${many} sessions`, async () => {
    for (let i = 0; i < many; i += 10) await Promise.all(Array.from({ length: 10 }, (_, of) => api("POST", "/v1/sessions", { image: "base", name: `real-${i + of}` })));
    const spent = async (seconds) => {
      const before = cpuSeconds();
      await page.waitForTimeout(seconds * 1000);
      return (100 * (cpuSeconds() - before)) / seconds;
    };
    await spent(3); // what came of making them
    let [without, opened] = [0, Infinity];
    for (let round = 0; round < 3 && opened - without >= 2; round++) { // samples of all sessions fall into one of two times
      without = await spent(10);
      await load("/", link("real-99"), async () => (opened = await spent(10)));
    }
    console.log(`the daemon takes ${without.toFixed(2)} % of a processor without the page, and ${opened.toFixed(2)} % with it`);
    assert.ok(opened - without < 2, `${(opened - without).toFixed(2)} % more`);
    for (const { id } of await api("GET", "/v1/sessions")) if (id !== made.id) await api("DELETE", `/v1/sessions/${id}`);
  });

  const sessions = Array.from({ length: count }, (_, i) => ({ ...made, id: `s${String(i).padStart(25, "0")}`, name: `made-up-${i}`, labels: { team: `team-${i % 7}` } }));
  let sent = 0;
  const events = (answer) => {
    answer.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    answer.write(`event: ready\ndata: ${JSON.stringify({ type: "ready", time: new Date().toISOString() })}\n\n`);
    const timer = setInterval(() => {
      const session = sessions[sent % 10 === 0 ? count - 1 : (sent * 37) % count];
      session.status = session.status === "running" ? "paused" : "running";
      const event = { type: session.status === "paused" ? "session.paused" : "session.resumed", time: new Date().toISOString(), owner: made.owner, session_id: session.id, session };
      answer.write(`id: 1-${++sent}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
    }, 1000 / perSecond);
    answer.on("close", () => clearInterval(timer));
  };
  const daemon = new URL(url);
  const front = createServer((asked, answer) => {
    const { pathname } = new URL(asked.url, url);
    if (pathname === "/v1/events") return events(answer);
    if (pathname === "/v1/sessions" && asked.method === "GET") return answer.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(sessions));
    const headers = { ...asked.headers, host: daemon.host, ...(asked.headers.origin && { origin: daemon.origin }) };
    const onward = request({ host: daemon.hostname, port: daemon.port, path: asked.url, method: asked.method, headers }, (told) => {
      answer.writeHead(told.statusCode, told.headers);
      told.pipe(answer);
    });
    onward.on("error", () => answer.destroy());
    asked.pipe(onward);
  });
  await new Promise((up) => front.listen(0, "127.0.0.1", up));
  const at = `http://127.0.0.1:${front.address().port}`;

  await step(`${count} sessions are there`, async () => {
    await page.goto(at); // of the same host, so with the sign-in
    await page.getByText(`${count}`).first().waitFor();
    await page.getByRole("link", { name: "made-up-0", exact: true }).waitFor();
  });

  await step(`${perSecond} events a second for ${seconds} s`, async () => {
    await page.evaluate(() => {
      window.longTasks = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((one) => (window.longTasks += one.duration))).observe({ type: "longtask" });
      setTimeout(() => {
        for (const begun = performance.now(); performance.now() < begun + 200; ); // it has to be seen
      });
    });
    await page.waitForFunction(() => window.longTasks >= 190);
    let [before, rows, long] = [sent, [], 100];
    // A machine that does much else is slow for a while; a page that is slow is so in all rounds.
    for (let round = 0; round < 4 && long >= 5; round++) {
      await page.waitForTimeout(round === 0 ? 500 : 5000);
      await page.evaluate(() => (window.longTasks = 0));
      [before, rows] = [sent, []];
      for (let second = 0; second < seconds; second++) {
        await page.waitForTimeout(1000);
        await page.mouse.move(640, 400);
        await page.mouse.wheel(0, 2000);
        rows.push(await page.getByRole("row").count());
      }
      long = (await page.evaluate(() => window.longTasks)) / (seconds * 10);
    }
    const cdp = await page.context().newCDPSession(page);
    await cdp.send("HeapProfiler.collectGarbage");
    await cdp.send("Performance.enable");
    const { metrics } = await cdp.send("Performance.getMetrics");
    const heap = metrics.find(({ name }) => name === "JSHeapUsedSize").value / 2 ** 20;
    console.log(`${sent - before} events, at most ${Math.max(...rows)} rows, ${long.toFixed(1)} % of the time in long tasks, a heap of ${heap.toFixed(0)} MiB`);
    assert.ok(sent - before >= perSecond * seconds * 0.7, `only ${sent - before} events were sent`);
    assert.ok(Math.min(...rows) > 5 && Math.max(...rows) < 120, `rows: ${rows}`);
    assert.ok(long < 5, `${long} % of the time is in long tasks`);
    assert.ok(heap < 150, `a heap of ${heap} MiB`);
  });

  await step("the palette finds among all, and draws few", async () => {
    const dialog = page.getByRole("dialog");
    await page.keyboard.press("Control+k");
    await dialog.getByRole("combobox").fill("team-3");
    await dialog.getByText(/more sessions: type more/).waitFor();
    assert.ok((await dialog.getByRole("option").count()) <= 60);
    const begun = Date.now();
    await dialog.getByRole("combobox").fill("made-up-1999");
    await dialog.getByRole("option", { name: /made-up-1999/, selected: true }).waitFor();
    console.log(`found in ${Date.now() - begun} ms`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    for (let row = 0; row < 60; row++) await page.keyboard.press("j");
    const box = await page.evaluate(() => {
      const { top, bottom } = document.activeElement.getBoundingClientRect();
      return { row: document.activeElement.getAttribute("aria-rowindex"), seen: top >= 0 && bottom <= innerHeight };
    });
    assert.ok(Number(box.row) >= 60 && box.seen, JSON.stringify(box));
  });

  await step("what an event said is shown, and search finds among all", async () => {
    await page.getByRole("searchbox").fill("made-up-1999");
    const row = page.getByRole("row", { name: /made-up-1999/ });
    for (const status of ["paused", "running"]) await row.getByText(status).waitFor();
    await page.getByRole("searchbox").fill("team-3");
    await page.getByRole("link", { name: "made-up-3", exact: true }).waitFor();
    await page.getByRole("searchbox").fill("");
    await look(page, "many-sessions");
  });
  front.closeAllConnections();
  front.close();
});
