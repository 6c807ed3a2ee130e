// How a page loads, as its user has it, and what it costs the daemon.
import { readFileSync } from "node:fs";
import { context, url, watch } from "./page.mjs";

/** observe counts in a page what is drawn first, what moves by itself and what blocks. */
function observe() {
  window.seen = { paint: undefined, shift: 0, shifted: [], long: 0 };
  const on = (type, act) => new PerformanceObserver((list) => list.getEntries().forEach(act)).observe({ type, buffered: true });
  on("paint", (entry) => entry.name === "first-contentful-paint" && (window.seen.paint = entry.startTime));
  on("longtask", (entry) => (window.seen.long = Math.max(window.seen.long, entry.duration)));
  on("layout-shift", (entry) => {
    if (entry.hadRecentInput) return; // somebody asked for it
    window.seen.shift += entry.value;
    window.seen.shifted.push(...entry.sources.map(({ node }) => node?.nodeName + " " + node?.className));
  });
}

/** plainly is when a page draws first that does next to nothing: how fast the machine is now. */
export async function plainly() {
  const fresh = await context.browser().newContext();
  try {
    const page = await fresh.newPage();
    await page.addInitScript(observe);
    await page.route("**/*", (route) => (route.request().url().endsWith(".js") ? route.fulfill({ contentType: "text/javascript", body: `for (let n = 0, sum = 0; n < 3e7; n++) sum += Math.sqrt(n); document.body.append("done");` }) : route.fulfill({ contentType: "text/html", body: `<!doctype html><title>plain</title><body><script src="a.js"></script>` })));
    await page.goto("http://plain.test/");
    await page.getByText("done").waitFor();
    await page.waitForFunction(() => window.seen.paint !== undefined);
    return await page.evaluate(() => window.seen.paint);
  } finally {
    await fresh.close();
  }
}

/** load opens a page in a browser that has nothing of it but the sign-in, and calls act once ready is there. */
export async function load(path, ready, act = async () => {}) {
  const fresh = await context.browser().newContext({ viewport: { width: 1280, height: 800 }, storageState: await context.storageState() });
  try {
    const page = await fresh.newPage();
    watch(page);
    await page.addInitScript(observe);
    const cdp = await fresh.newCDPSession(page);
    await cdp.send("Network.enable");
    const requests = new Map();
    cdp.on("Network.responseReceived", ({ requestId, response }) => {
      const headers = Object.fromEntries(Object.entries(response.headers).map(([name, value]) => [name.toLowerCase(), value]));
      requests.set(requestId, { url: response.url, status: response.status, headers, bytes: response.encodedDataLength });
    });
    cdp.on("Network.dataReceived", ({ requestId, encodedDataLength }) => requests.has(requestId) && (requests.get(requestId).bytes += encodedDataLength));
    cdp.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => requests.has(requestId) && (requests.get(requestId).bytes = encodedDataLength));
    await page.goto(url + path);
    await ready(page).waitFor();
    await page.waitForTimeout(1000); // what comes behind it
    const all = [...requests.values()];
    await act(page);
    return { ...(await page.evaluate(() => window.seen)), requests: all, bytes: all.reduce((sum, { bytes }) => sum + bytes, 0) };
  } finally {
    await fresh.close();
  }
}

export const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** cpuSeconds is what the daemon has had of the processors. */
export function cpuSeconds() {
  const fields = readFileSync(`/proc/${process.env.SANDKASTEN_TEST_PID}/stat`, "utf8").split(") ").at(-1).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100; // user and system, which /proc has in hundredths
}
