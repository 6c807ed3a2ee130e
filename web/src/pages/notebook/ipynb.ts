/** Notebooks as Jupyter stores them, format 4. */
import type { CodeResult } from "@sandkasten/sdk";
import { newCell, type Cell, type Output } from "./model.js";

type Fields = Record<string, unknown>;

const fields = (value: unknown): Fields => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
/** Text is a string or its lines. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : list(value).filter((one) => typeof one === "string").join(""));

/** What is read of a notebook. */
const mostCells = 1000;
const mostOutputs = 200;

function outputOf(raw: Fields): Output {
  switch (raw.output_type) {
    case "stream":
      return { kind: "text", name: raw.name === "stderr" ? "stderr" : "stdout", text: textOf(raw.text) };
    case "error":
      return { kind: "error", error: { name: textOf(raw.ename), value: textOf(raw.evalue), traceback: list(raw.traceback).map(textOf).join("\n") } };
  }
  const data = Object.fromEntries(Object.entries(fields(raw.data)).map(([type, value]) => [type, Array.isArray(value) ? textOf(value) : value]));
  return { kind: "result", result: { data, isMainResult: raw.output_type === "execute_result" } };
}

/** cellsOf reads a notebook, and throws if it is none. */
export function cellsOf(text: string): Cell[] {
  let cells: unknown;
  try {
    cells = fields(JSON.parse(text)).cells;
  } catch {
    cells = undefined;
  }
  if (!Array.isArray(cells)) throw new Error("This is no notebook that can be read.");
  return cells.slice(0, mostCells).map(fields).map((raw) => ({
    ...newCell(raw.cell_type === "code" ? "code" : "markdown", textOf(raw.source)),
    outputs: list(raw.outputs).slice(0, mostOutputs).map((one) => outputOf(fields(one))),
    count: typeof raw.execution_count === "number" ? raw.execution_count : undefined,
  }));
}

/** Jupyter stores text as lines, each with its end. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

function dataOf({ data }: CodeResult): Fields {
  return Object.fromEntries(Object.entries(data).map(([type, value]) => [type, typeof value === "string" && !/^image\/(?!svg)/.test(type) ? linesOf(value) : value]));
}

function rawOf(output: Output, count: number | undefined): Fields | undefined {
  switch (output.kind) {
    case "text":
      return { output_type: "stream", name: output.name, text: linesOf(output.text) };
    case "error":
      return { output_type: "error", ename: output.error.name, evalue: output.error.value, traceback: output.error.traceback.split("\n") };
    case "result": {
      const shown = { data: dataOf(output.result), metadata: {} };
      return output.result.isMainResult ? { output_type: "execute_result", execution_count: count ?? null, ...shown } : { output_type: "display_data", ...shown };
    }
    case "note":
      return undefined;
  }
}

/** notebookText is a notebook as Jupyter opens it. */
export function notebookText(cells: readonly Cell[]): string {
  const raw = cells.map((cell, at) => {
    const shared = { id: `cell-${at + 1}`, metadata: {}, source: linesOf(cell.source) };
    if (cell.type === "markdown") return { cell_type: "markdown", ...shared };
    return { cell_type: "code", ...shared, execution_count: cell.count ?? null, outputs: cell.outputs.map((one) => rawOf(one, cell.count)).filter((one) => one !== undefined) };
  });
  const metadata = { kernelspec: { name: "python3", display_name: "Python 3", language: "python" }, language_info: { name: "python" } };
  return `${JSON.stringify({ cells: raw, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`;
}
