// Makes the pictures of the documentation, in docs/pictures: `go tool task web:pictures`.
import { writeFileSync } from "node:fs";
import { api, context, run, shots, showIn, url } from "./page.mjs";

const to = process.env.SANDKASTEN_TEST_PICTURES;

/** take writes what the page shows as WebP, which the browser itself can pack. */
async function take(page, name, theme) {
  await showIn(page, theme);
  await page.mouse.move(640, 795);
  await page.waitForTimeout(300);
  const png = (await page.screenshot({ path: `${shots}/${name}.png` })).toString("base64");
  const packer = await context.newPage();
  const webp = await packer.evaluate(async (png) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height);
    canvas.getContext("2d").drawImage(image, 0, 0);
    const bytes = new Uint8Array(await (await canvas.convertToBlob({ type: "image/webp", quality: 0.82 })).arrayBuffer());
    return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  }, png);
  await packer.close();
  writeFileSync(`${to}/${name}.webp`, Buffer.from(webp, "base64"));
}

await run(async (page) => {
  await page.setViewportSize({ width: 1120, height: 640 });
  const make = (name, team, more) => api("POST", "/v1/sessions", { image: "base", name, labels: { team }, ...more });
  const busy = await make("refactor-parser", "agents", { memory_mb: 1024, cpu: 2, network: { mode: "none" } });
  const names = ["fix-flaky-test", "review-412", "nightly-report", "data-import", "docs-examples", "triage", "bench-encoder"];
  const others = [];
  for (const [i, name] of names.entries()) others.push(await make(name, i % 2 ? "agents" : "ci"));
  const shell = (cmd, of = busy) => api("POST", `/v1/sessions/${of.id}/exec`, { cmd });
  await shell("mkdir -p src tests && printf 'def parse(text):\\n    return text.split()\\n' > src/parser.py && printf '# Parser\\n' > README.md && touch tests/test_parser.py Makefile && head -c 300000 /dev/urandom > data.bin");
  await shell("ls -l src");
  await shell("wc -l src/parser.py; grep -rn split src");
  await shell("false");
  for (const one of others.slice(0, 4)) await shell("head -c 40M /dev/zero | tail -c 20M > /tmp/x", one);
  await api("POST", `/v1/sessions/${others[5].id}/pause`);
  await api("POST", `/v1/sessions/${others[6].id}/stop`);
  await api("POST", `/v1/sessions/${busy.id}/processes`, { cmd: ["sh", "-c", "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.1; done"], background: true });

  await page.goto(url);
  await page.getByRole("link", { name: "refactor-parser" }).waitFor();
  await page.waitForTimeout(11_000); // until the use of processors is known
  await take(page, "sessions", "dark");

  await page.goto(`${url}/sessions/${busy.id}`);
  const rows = page.locator("[data-terminal] .xterm-rows").first();
  await rows.getByText("#").first().waitFor();
  await page.locator("[data-terminal]").first().click();
  for (const [line, said] of [["ls -l", "tests"], ["cat src/parser.py", "return"], ["export MODE=fast; sleep 100 &", "[1]"], ["jobs; echo $MODE in $PWD", "fast in /"]]) {
    await page.keyboard.type(`${line}\n`);
    await rows.getByText(said).first().waitFor();
    await page.waitForTimeout(300);
  }
  await page.waitForTimeout(500);
  await take(page, "terminal", "dark");

  await page.goto(`${url}/sessions/${busy.id}?tab=commands`);
  await page.getByRole("button", { name: /grep -rn split src/ }).click();
  await page.getByText("2 src/parser.py").waitFor();
  await take(page, "commands", "light");

  await page.goto(`${url}/docs/reference.html#exec`);
  const exec = page.locator("#exec");
  await exec.getByRole("tab", { name: "Python", exact: true }).click();
  await exec.getByText("Sends a real request").waitFor();
  await exec.getByRole("tablist").evaluate((one) => one.scrollIntoView({ block: "center" }));
  await exec.getByLabel("id (path, required)").fill(busy.name);
  await exec.getByLabel("Body").fill('{"cmd": "wc -l src/*.py"}');
  await exec.getByRole("button", { name: "Send POST" }).click();
  await exec.locator(".answer strong", { hasText: /^200 / }).waitFor();
  await exec.getByRole("tablist").evaluate((one) => window.scrollTo(0, window.scrollY + one.getBoundingClientRect().top - 80));
  await take(page, "reference", "light");
});
