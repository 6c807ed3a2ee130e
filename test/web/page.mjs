// What the scripts of this directory share: a browser, the daemon that web_test.go has
// started for the script, and what no page may ever do.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

export const url = process.env.SANDKASTEN_URL;
export const key = process.env.SANDKASTEN_API_KEY;
export const shots = process.env.SANDKASTEN_TEST_SHOTS;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export async function daemon(what) {
  console.log(`daemon ${what}`);
  await answers.next();
}

export async function api(method, path, body) {
  const response = await fetch(url + path, { method, headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" }, body: body && JSON.stringify(body) });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${await response.clone().text()}`);
  return response.json();
}

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
export const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
/** patience is how long a script waits for what must come, in milliseconds: other parts of the gate may have the processors meanwhile. */
export const patience = 120_000;
context.setDefaultTimeout(patience);
// axe comes in behind the page's policy, as an extension of the browser does.
export const failures = [];
context.on("request", (request) => {
  if (new URL(request.url()).hostname !== new URL(url).hostname && !/^(blob|data):/.test(request.url())) failures.push(`a request to ${request.url()}`);
});
export function watch(page) {
  page.on("pageerror", (error) => failures.push(`${page.url()}: ${error.message}`));
  page.on("dialog", (dialog) => failures.push(`a dialog: ${dialog.message()}`));
  page.on("console", (message) => {
    const ofHostilePage = /[?&]as=page&/.test(message.location().url); // there the policy is to refuse
    if (!ofHostilePage && /Content Security Policy|TrustedHTML|Trusted Type/i.test(message.text())) failures.push(message.text());
  });
}

export async function step(name, act) {
  const begun = Date.now();
  await act();
  console.log(`ok: ${name}, ${Date.now() - begun} ms`);
}

/** showIn has the page in the colours of a theme, as its system chooses them. */
export async function showIn(page, theme) {
  await page.evaluate(() => (document.documentElement.dataset.theme = ""));
  await page.emulateMedia({ colorScheme: theme });
}

/** look: accessible in both themes, with a picture of each; and nothing wider than a small screen. */
export async function look(page, name) {
  for (const theme of ["light", "dark"]) {
    await showIn(page, theme);
    await page.waitForTimeout(100); // terminals and charts are drawn anew
    await page.screenshot({ path: `${shots}/${name}-${theme}.png` });
    const { violations } = await page.evaluate(`(() => { ${axe}; return window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"] }); })()`).catch((err) => ({ violations: [{ id: String(err), nodes: [] }] }));
    for (const one of violations) failures.push(`${name}, ${theme}: ${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200) + " " + node.failureSummary).join("; ")}`);
  }
  await page.setViewportSize({ width: 390, height: 800 });
  await page.waitForTimeout(300); // terminals and tables measure themselves
  // Code, terminals and tables of data may be wider than the screen, in a box of their own.
  const wide = await page.evaluate(() =>
    [document.documentElement, ...document.querySelectorAll("body *")]
      .filter((one) => !one.closest("pre, code, .xterm, .wide, [data-wide], input, select, textarea") && one.scrollWidth > Math.max(one.clientWidth, 1) + 1 && (one === document.documentElement || /auto|scroll/.test(getComputedStyle(one).overflowX)))
      .map((one) => `${one.tagName} ${one.getAttribute("aria-label") ?? one.className}: ${one.scrollWidth} of ${one.clientWidth}`),
  );
  if (wide.length > 0) failures.push(`${name} is too wide for a small screen: ${wide.join("; ")}`);
  await page.screenshot({ path: `${shots}/${name}-small.png` });
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: null });
}

/** evil is text that a page must only ever show. */
export const evil = `<img src=x onerror="window.pwned=1">\u202egnp.exe`;

/** run gives act a page of the console, signed in unless it is to do so itself, and ends the script. */
export async function run(act, signedIn = true) {
  const page = await context.newPage();
  watch(page);
  try {
    if (signedIn) await signIn(page);
    await act(page);
    assert.equal(await page.evaluate(() => window.pwned), undefined);
  } catch (error) {
    await page.screenshot({ path: `${shots}/failed.png` });
    failures.push(`${error.stack}\nthe page says: ${(await page.locator("body").innerText()).slice(0, 400)}`);
  }
  await browser.close();
  for (const one of failures) console.error(one);
  process.exit(failures.length > 0 ? 1 : 0);
}

export async function signIn(page) {
  await page.goto(url);
  await page.getByRole("button", { name: "Use an API key" }).click();
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Sessions", exact: true }).waitFor();
}
