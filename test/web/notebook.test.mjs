// The notebook of a session: cells run in contexts, and what they show is drawn and does nothing.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { api, key, look, run, step, url } from "./page.mjs";

const hostile = `<script>parent.pwned = window.pwned = 1</script><img src=x onerror="parent.pwned = 1"><b>bold</b>`;

await run(async (page) => {
  const session = await api("POST", "/v1/sessions", { image: "data", name: "notebook" });
  const cell = (number) => page.locator("[data-cell]").nth(number - 1);
  const text = (number) => cell(number).locator(".cm-content");
  const button = (name) => page.getByRole("button", { name, exact: true });
  const count = () => page.locator("[data-cell]").count();
  const type = async (number, code) => {
    await text(number).click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(code);
  };
  const idle = () => page.locator('[data-cell][aria-busy="true"]').first().waitFor({ state: "detached" });

  await step("cells remember, and Shift+Enter goes on to the next", async () => {
    await page.goto(`${url}/sessions/${session.id}?tab=notebook`);
    await type(1, "x = 20\nprint('hi')");
    await page.keyboard.press("Shift+Enter");
    await cell(1).getByText("hi", { exact: true }).waitFor();
    await idle();
    assert.equal(await cell(1).locator(".cm-line").count(), 2); // the key that runs adds no line
    await page.keyboard.press("Enter");
    await page.keyboard.insertText("x + 1");
    await page.keyboard.press("Control+Enter");
    await cell(2).getByText("21", { exact: true }).waitFor();
    await cell(2).getByText("[2]", { exact: true }).waitFor();
    assert.equal(await cell(2).locator(".cm-line").count(), 1);
  });

  await step("Jupyter's keys", async () => {
    assert.equal(await cell(2).evaluate((one) => one === document.activeElement), true);
    await page.keyboard.press("b");
    assert.equal(await count(), 3);
    await page.keyboard.press("m");
    await page.keyboard.press("Enter");
    await page.keyboard.insertText("# Sales");
    await page.keyboard.press("Shift+Enter");
    await page.getByRole("heading", { name: "Sales" }).waitFor();
    assert.equal(await count(), 4);
    await page.keyboard.press("k");
    await page.keyboard.press("k");
    await page.keyboard.press("d");
    await page.keyboard.press("d");
    await page.getByText("21", { exact: true }).waitFor({ state: "detached" });
    assert.equal(await count(), 3);
    await page.keyboard.press("z");
    await page.getByText("21", { exact: true }).waitFor();
    assert.equal(await count(), 4);
  });

  await step("a data frame is a table that sorts", async () => {
    await type(4, "import pandas as pd\npd.DataFrame({'name': ['b', 'a', 'c'], 'price': [10, 9, 100]})");
    await button("Run").click();
    const prices = () => cell(4).locator("tbody td:last-child").allInnerTexts();
    await cell(4).getByText("3 rows, 2 columns").waitFor();
    assert.deepEqual(await prices(), ["10", "9", "100"]);
    await cell(4).getByRole("button", { name: "price" }).click();
    assert.deepEqual(await prices(), ["9", "10", "100"]);
    await cell(4).getByRole("button", { name: "price" }).click();
    assert.deepEqual(await prices(), ["100", "10", "9"]);
    await cell(4).locator('th[aria-sort="descending"]').waitFor();
  });

  await step("a chart is a picture and its numbers", async () => {
    await button("Add code").click();
    await page.keyboard.insertText("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [2, 4, 8], label='growth')\nplt.title('Revenue')\nplt.show()");
    await page.keyboard.press("Control+Enter");
    await cell(5).locator("img").waitFor();
    await cell(5).getByText("line, Revenue: 1 series").waitFor();
    await cell(5).getByRole("button", { name: "Show the numbers" }).click();
    await cell(5).getByRole("cell", { name: "8", exact: true }).waitFor();
    await idle();
    await page.locator('[aria-label="Notebook"][role="region"]').evaluate((one) => (one.scrollTop = 0));
    await look(page, "notebook");
  });

  await step("nothing that a kernel prints runs", async () => {
    await button("Add code").click();
    await page.keyboard.insertText(`from IPython.display import HTML, SVG, Javascript, Markdown, display\ndisplay(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9" onload="parent.pwned=1"><script>window.pwned=1</script></svg>'))\ndisplay(Javascript('window.pwned = 1'))\ndisplay(Markdown(${JSON.stringify(hostile)}))\nprint(${JSON.stringify(hostile)})\nHTML(${JSON.stringify(hostile)})`);
    await page.keyboard.press("Control+Enter");
    const frame = cell(6).locator("iframe");
    await frame.waitFor();
    assert.equal(await frame.getAttribute("sandbox"), "");
    await frame.contentFrame().getByText("bold", { exact: true }).waitFor();
    await idle();
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    // The control: the same markup runs where nothing keeps it from that.
    const free = await page.context().browser().newPage();
    await free.setContent(hostile);
    await free.waitForFunction(() => window.pwned === 1);
    await free.close();
  });

  await step("an exception ends what waits; interrupt and restart", async () => {
    await type(1, "1 / 0");
    await button("Run all").click();
    await cell(1).getByText("division by zero").first().waitFor();
    await idle();
    assert.equal(await cell(2).getByText("[2]", { exact: true }).count(), 1); // it did not run again
    await type(1, "while True: pass");
    await page.keyboard.press("Control+Enter");
    await cell(1).getByText("It runs.").waitFor();
    await button("Interrupt").click();
    await cell(1).getByText("Interrupted; variables are kept.").waitFor();
    await idle();
    await button("Restart").click();
    await type(1, "'x' in globals()");
    await page.keyboard.press("Control+Enter");
    await cell(1).getByText("False", { exact: true }).waitFor();
  });

  await step("several contexts have variables of their own", async () => {
    await type(1, "x = 'of the default'");
    await page.keyboard.press("Control+Enter");
    await idle();
    await button("New context").click();
    await page.getByLabel("Name", { exact: true }).fill("other");
    await button("Start").click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await page.getByLabel("Context", { exact: true }).inputValue(), "other");
    await type(1, "'x' in globals()");
    await page.keyboard.press("Control+Enter");
    await cell(1).getByText("False", { exact: true }).waitFor();
    await idle();
    await page.getByLabel("Context", { exact: true }).selectOption("");
    await page.keyboard.press("Tab");
    await type(1, "x");
    await page.keyboard.press("Control+Enter");
    await cell(1).getByText("'of the default'", { exact: true }).waitFor();
    await idle();
  });

  await step("the cells stay while other tabs are shown", async () => {
    const before = await count();
    await page.getByRole("tab", { name: "about" }).click();
    await page.getByRole("tab", { name: "notebook" }).click();
    await cell(1).getByText("'of the default'", { exact: true }).waitFor();
    assert.equal(await count(), before);
  });

  await step("a notebook is saved, downloaded and opened again", async () => {
    await button("Save").click();
    await button("Saved").waitFor();
    const coming = page.waitForEvent("download");
    await button("Download").click();
    const downloaded = await readFile(await (await coming).path(), "utf8");
    const stored = await fetch(`${url}/v1/sessions/${session.id}/fs/read?raw=1&path=notebook.ipynb`, { headers: { Authorization: `Bearer ${key}` } });
    assert.equal(await stored.text(), downloaded);
    const { cells, nbformat } = JSON.parse(downloaded);
    assert.equal(nbformat, 4);
    assert.deepEqual([cells[0].outputs[0].output_type, cells[2].cell_type, cells[4].outputs[0].output_type], ["execute_result", "markdown", "display_data"]);
    await button("Add text").click();
    await button("Open").click();
    await page.getByText("What is here is not saved").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "notebook.ipynb" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.equal(await count(), cells.length);
    await cell(5).locator("img").waitFor();
    // What this page did not run is drawn on demand.
    assert.equal(await cell(6).locator("iframe").count(), 0);
    await cell(6).getByRole("button", { name: "Draw the HTML" }).click();
    await cell(6).locator("iframe").contentFrame().getByText("bold", { exact: true }).waitFor();
    await button("Open").click();
    await page.locator('input[type="file"]').setInputFiles({ name: "no.ipynb", mimeType: "application/json", buffer: Buffer.from("<script>") });
    await page.getByText("This is no notebook that can be read.").waitFor();
    await button("Cancel").click();
  });
});
