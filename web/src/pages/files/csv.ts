import { ending } from "./kind.js";

/** What is shown of a table. */
const maxRows = 100_000;
const maxColumns = 100;

/** separator is a tab where the name says so, and else what the first line has most of, outside of quotes. */
export function separator(name: string, text: string): string {
  if (ending(name) === "tsv") return "\t";
  const line = text.slice(0, 10_000).replace(/"[^"]*"/g, "").split(/\r?\n/, 1)[0]!;
  const count = (one: string) => line.split(one).length;
  return ["\t", ";"].reduce((best, one) => (count(one) > count(best) ? one : best), ",");
}

/** parse takes comma-separated values apart: fields in quotes may have separators, line ends and doubled quotes in them. */
export function parse(text: string, by: string): { rows: string[][]; cut: boolean } {
  const rows: string[][] = [];
  let row: string[] = [];
  let at = 0;
  let cut = false;
  const next = new RegExp(`[${by}\\r\\n]`, "g");
  while (at < text.length && rows.length < maxRows) {
    let field = "";
    if (text[at] === '"') {
      let end = at + 1;
      for (;;) {
        end = text.indexOf('"', end);
        if (end < 0) end = text.length;
        if (text[end + 1] !== '"') break;
        end += 2;
      }
      field = text.slice(at + 1, end).replaceAll('""', '"');
      at = end + 1;
    }
    next.lastIndex = at;
    const end = next.exec(text)?.index ?? text.length;
    field += text.slice(at, end);
    if (row.length < maxColumns) row.push(field);
    else cut = true;
    at = end + 1;
    if (text[end] === by && at < text.length) continue;
    if (text[end] === by) row.push("");
    if (text[end] === "\r" && text[at] === "\n") at++;
    rows.push(row);
    row = [];
  }
  return { rows, cut: cut || at < text.length };
}
