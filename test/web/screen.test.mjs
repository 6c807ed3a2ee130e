// The terminal: a flood, a program that draws on the whole screen, and a reload in its middle.
import assert from "node:assert/strict";
import { api, context, look, patience, run, step, url } from "./page.mjs";

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "base", name: "screen" });
  const terminal = page.locator("[data-terminal]:visible");
  const lines = () => terminal.locator(".xterm-rows > div").evaluateAll((rows) => rows.map((row) => row.textContent.replace(/\u00a0/g, " ").trimEnd()));
  const type = async (text) => {
    await terminal.click();
    await page.keyboard.type(text);
  };
  const until = async (what, test) => {
    for (const begun = Date.now(); ; await page.waitForTimeout(100)) {
      const shown = await lines().catch(() => []);
      if (test(shown)) return shown;
      if (Date.now() - begun > patience) throw new Error(`${what}:\n${shown.join("\n")}`);
    }
  };
  await page.goto(`${url}/sessions/${session.id}`);
  await until("a prompt", (shown) => shown.some((line) => line.endsWith("#")));

  await step("yes | head -c 50M leaves the page responsive, and ends right", async () => {
    await page.evaluate(() => {
      // How long the page keeps somebody waiting who does something.
      window.waits = [];
      let due = performance.now() + 50;
      window.ticking = setInterval(() => {
        window.waits.push(performance.now() - due);
        due = performance.now() + 50;
      }, 50);
    });
    const begun = Date.now();
    await type("yes | head -c 50M; echo done-$((40+2))\n");
    const shown = await until("the end", (shown) => shown.includes("done-42"));
    const took = (Date.now() - begun) / 1000;
    assert.equal(shown[shown.indexOf("done-42") - 1], "y");
    const waits = (await page.evaluate(() => window.waits)).sort((a, b) => a - b);
    const at = (part) => waits[Math.floor((waits.length - 1) * part)].toFixed(0);
    console.log(`50 MiB in ${took.toFixed(1)} s; who does something waits ${at(0.5)} ms, at most ${at(1)} ms`);
    assert.ok(waits.length > 10 && Number(at(0.95)) < 200, `95 % wait less than ${at(0.95)} ms`);
    await type("echo again-$((1+1))\n");
    await until("a prompt that answers", (shown) => shown.includes("again-2"));
  });

  await step("a link of a program shows where it leads before it is opened, and leads to web pages only", async () => {
    const link = (to, text) => `\x1b]8;;${to}\x1b\\${text}\x1b]8;;\x1b\\\r\n`;
    const real = `${url}/docs/?real`;
    const links = link("javascript:window.pwned=1", "script-link") + link("data:text/html,<script>1</script>", "data-link") + link("file:///etc/passwd", "file-link") + link(real, "look-here");
    await api("POST", `/v1/sessions/${session.id}/fs/write`, { path: "/workspace/links", text: `\x1b[2J\x1b[H${links}` });
    await type("cat /workspace/links\n");
    await until("the links", (shown) => shown[3] === "look-here");
    const opened = [];
    context.on("page", (other) => opened.push(other.url()));
    const click = async (text, modifiers) => {
      const place = terminal.locator(".xterm-rows").getByText(text).last();
      // The terminal looks for links when the pointer comes to another cell.
      await place.hover({ force: true, position: { x: 4, y: 6 } });
      await place.hover({ force: true });
      await page.waitForTimeout(100);
      await place.click({ force: true, modifiers });
    };
    const dialog = page.getByRole("dialog");
    for (const text of ["script-link", "data-link", "file-link"]) await click(text, ["Control"]);
    await click("look-here");
    await page.waitForTimeout(200);
    assert.deepEqual([opened, await dialog.count()], [[], 0]);
    await click("look-here", ["Control"]);
    await dialog.getByText(real, { exact: true }).waitFor();
    await look(page, "terminal-link");
    assert.deepEqual(opened, [], "it is asked first");
    const open = dialog.getByRole("link", { name: "Open" });
    assert.deepEqual([await open.getAttribute("href"), await open.getAttribute("rel"), await open.getAttribute("target")], [real, "noopener noreferrer", "_blank"]);
    const [other] = await Promise.all([context.waitForEvent("page"), open.click()]);
    assert.equal(await other.evaluate(() => window.opener), null);
    assert.equal(other.url(), real);
    await other.close();
    await dialog.waitFor({ state: "detached" });
  });

  // The alternate screen, a region that scrolls, colours, wide characters and a place for each text.
  const program = `printf '\\033[?1049h\\033[2J\\033[H'
printf '\\033[1;7m%-20s\\033[0m' header
printf '\\033[3;8r\\033[3;1H'; for i in 1 2 3 4 5 6 7 8 9; do printf 'row %s\\n\\r' $i; done; printf '\\033[r'
printf '\\033[10;5H\\342\\224\\214\\342\\224\\200\\342\\224\\200\\342\\224\\220\\033[11;5H\\342\\224\\224\\342\\224\\200\\342\\224\\200\\342\\224\\230'
printf '\\033[12;3H\\346\\227\\245\\346\\234\\254 x\\033[13;3Habcdef\\033[13;5H\\033[2P\\033[14;3H\\033[31mred\\033[0m \\033[38;2;10;200;30mgreen\\033[0m'
read -r line; printf '\\033[16;1Hread %s' "$line"; sleep 3600`;
  const want = (shown) =>
    shown[0] === "header" && ["row 5", "row 6", "row 7", "row 8", "row 9"].every((line, i) => shown[2 + i] === line) && shown[9] === "    \u250c\u2500\u2500\u2510" && shown[10] === "    \u2514\u2500\u2500\u2518" && shown[11] === "  \u65e5\u672c x" && shown[12] === "  abef" && shown[13] === "  red green";
  await step("a program that draws on the whole screen", async () => {
    await api("POST", `/v1/sessions/${session.id}/fs/write`, { path: "/workspace/draw", text: program });
    await type("bash /workspace/draw\n");
    await until("what it drew", want);
    assert.equal(await terminal.getByText("green").last().evaluate((one) => getComputedStyle(one).color), "rgb(10, 200, 30)");
  });

  await step("a reload in its middle comes back to it", async () => {
    await page.reload();
    await terminal.waitFor();
    await until("what it drew", want);
    await type("hello\n");
    await until("its answer", (shown) => shown[15] === "read hello");
    await page.keyboard.press("Control+C");
    await until("what was before", (shown) => shown[0] !== "header" || shown.some((line) => line.endsWith("#")));
  });
});
