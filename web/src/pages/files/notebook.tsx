import { useMemo } from "react";
import { marked, plain } from "../../ui/text.js";
import { lines } from "../commands.js";
import { Markdown } from "./markdown.js";
import { Picture } from "./picture.js";

/** What is drawn of a notebook. */
const maxCells = 500;
const maxOutputs = 20;
const maxText = 100_000;

type Fields = Record<string, unknown>;

const fields = (value: unknown): Fields => (typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : {});
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
/** Text is a string or its lines. */
const textOf = (value: unknown): string => (typeof value === "string" ? value : list(value).filter((one) => typeof one === "string").join(""));

/** Fields that are no text are shown as they stand in the file. */
function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2);
  } catch {
    return "(too deeply nested)";
  }
}

function cellsOf(text: string): unknown[] | undefined {
  try {
    const { cells } = fields(JSON.parse(text));
    return Array.isArray(cells) ? cells : undefined;
  } catch {
    return undefined;
  }
}

/** A Jupyter notebook as it was saved: nothing of it runs. */
export default function Notebook({ text }: { text: string }) {
  const cells = useMemo(() => cellsOf(text), [text]);
  if (!cells) return <p className="text-muted">This is no notebook that can be read. Look at its source.</p>;
  return (
    <div className="flex flex-col gap-4">
      {cells.slice(0, maxCells).map((cell, at) => (
        <Cell key={at} cell={fields(cell)} />
      ))}
      {cells.length > maxCells && <p className="text-warn">Only the first {maxCells} of {cells.length} cells are drawn.</p>}
    </div>
  );
}

function Cell({ cell }: { cell: Fields }) {
  const source = textOf(cell.source).slice(0, maxText);
  if (cell.cell_type === "markdown") return <Markdown text={source} />;
  const outputs = list(cell.outputs);
  return (
    <section aria-label={cell.cell_type === "code" ? "Code cell" : "Cell"} className="grid grid-cols-[6ch_minmax(0,1fr)] gap-x-2 gap-y-1 font-mono text-xs">
      <span className="pt-2 text-muted">{typeof cell.execution_count === "number" ? `[${cell.execution_count}]` : "[ ]"}</span>
      <pre tabIndex={0} aria-label="Source" className="overflow-x-auto rounded border border-line bg-sunk p-2">
        {marked(source)}
      </pre>
      <div className="col-start-2 flex min-w-0 flex-col gap-1">
        {outputs.slice(0, maxOutputs).map((output, at) => (
          <Output key={at} output={fields(output)} />
        ))}
        {outputs.length > maxOutputs && <p className="text-warn">Only the first {maxOutputs} of {outputs.length} outputs are drawn.</p>}
      </div>
    </section>
  );
}

function Output({ output }: { output: Fields }) {
  switch (output.output_type) {
    case "stream":
      return <Printed text={textOf(output.text)} bad={output.name === "stderr"} />;
    case "error":
      return <Printed text={textOf(list(output.traceback).map((line) => `${textOf(line)}\n`)) || `${textOf(output.ename)}: ${textOf(output.evalue)}`} bad />;
    default:
      return <Data data={fields(output.data)} />;
  }
}

const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** The best of several forms of the same that is safe to draw. Markup and scripts are only ever shown. */
function Data({ data }: { data: Fields }) {
  const picture = pictures.find((type) => typeof data[type] === "string");
  if (picture) return <Encoded type={picture} text={textOf(data[picture])} />;
  if ("image/svg+xml" in data) return <Picture type="image/svg+xml" data={textOf(data["image/svg+xml"])} alt="Output" />;
  if ("text/plain" in data) return <Printed text={textOf(data["text/plain"])} />;
  if ("text/markdown" in data) return <Markdown text={textOf(data["text/markdown"]).slice(0, maxText)} />;
  const [type, value] = Object.entries(data)[0] ?? [];
  if (type === undefined) return null;
  return (
    <>
      <p className="text-muted">{plain(type)}, as text</p>
      <Printed text={textOf(value) || jsonOf(value)} />
    </>
  );
}

function Encoded({ type, text }: { type: string; text: string }) {
  const data = useMemo(() => {
    try {
      return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    } catch {
      return undefined;
    }
  }, [text]);
  return data ? <Picture type={type} data={data} alt="Output" /> : <p className="text-muted">This picture cannot be read.</p>;
}

function Printed({ text, bad = false }: { text: string; bad?: boolean }) {
  const shown = useMemo(() => lines(text.slice(0, maxText)), [text]);
  return (
    <>
      <pre tabIndex={0} aria-label="Output" className={`max-h-96 overflow-auto px-2 break-words whitespace-pre-wrap ${bad ? "text-bad" : ""}`}>
        {shown}
      </pre>
      {text.length > maxText && <p className="text-warn">Only the beginning of the output is shown.</p>}
    </>
  );
}
