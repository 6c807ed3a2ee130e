import type { CodeChart, CodeResult, CodeTable } from "@sandkasten/sdk";
import { useEffect, useMemo, useState } from "react";
import { client } from "../../api/client.js";
import { Act } from "../../ui/act.js";
import { Button } from "../../ui/button.js";
import { plain } from "../../ui/text.js";
import { lines } from "../commands.js";
import { Markdown } from "../files/markdown.js";
import { pageURL } from "../files/paths.js";
import { Picture } from "../files/picture.js";
import { Frame } from "./frame.js";
import type { Output } from "./model.js";

/** What is drawn of a cell. */
const mostOutputs = 100;
const mostText = 100_000;
/** The daemon sends larger files as no page. */
const mostPage = 1 << 20;

/** What a cell has shown. A kernel's markup is never part of this page. */
export function Outputs({ session, outputs, ran }: { session: string; outputs: readonly Output[]; ran: boolean }) {
  return (
    <>
      {outputs.slice(0, mostOutputs).map((output, at) => (
        <One key={at} session={session} output={output} ran={ran} />
      ))}
      {outputs.length > mostOutputs && <p className="text-warn">Only the first {mostOutputs} of {outputs.length} outputs are drawn.</p>}
    </>
  );
}

function One({ session, output, ran }: { session: string; output: Output; ran: boolean }) {
  switch (output.kind) {
    case "text":
      return <Printed text={output.text} bad={output.name === "stderr"} />;
    case "error":
      return <Printed text={output.error.traceback || `${output.error.name}: ${output.error.value}`} bad />;
    case "note":
      return <p className="text-warn">{plain(output.text)}</p>;
    case "result":
      return <Result session={session} result={output.result} ran={ran} />;
  }
}

const textOf = (value: unknown): string => (typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? ""));
const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** A result by the best of its forms that is safe to draw, with what else it has. */
function Result({ session, result, ran }: { session: string; result: CodeResult; ran: boolean }) {
  const { data, table, chart, note } = result;
  return (
    <div className="flex min-w-0 flex-col gap-1">
      {table ? <Frame table={table} /> : <Form session={session} data={data} ran={ran} />}
      {chart && <Numbers chart={chart} />}
      {note && <p className="text-muted">{plain(note)}</p>}
      {Object.entries(result.filePaths ?? {}).map(([type, file]) => (
        <p key={type} className="text-muted">
          {plain(type)} is in the file {plain(file)}.
        </p>
      ))}
    </div>
  );
}

function Form({ session, data, ran }: { session: string; data: Record<string, unknown>; ran: boolean }) {
  const picture = pictures.find((type) => typeof data[type] === "string");
  const html = data["text/html"];
  if (picture) return <Encoded type={picture} text={textOf(data[picture])} alt={textOf(data["text/plain"] ?? "Output")} />;
  if (typeof data["image/svg+xml"] === "string") return <Picture type="image/svg+xml" data={data["image/svg+xml"]} alt="Output" />;
  if (typeof html === "string" && html.length <= mostPage) return <Page session={session} html={html} text={textOf(data["text/plain"] ?? "")} ran={ran} />;
  if (typeof data["text/markdown"] === "string") return <Markdown text={data["text/markdown"].slice(0, mostText)} />;
  const [type, value] = ["text/plain", "text/latex", "application/json", ...Object.keys(data)].map((type): [string, unknown] => [type, data[type]]).find(([, value]) => value !== undefined) ?? [];
  if (type === undefined) return null;
  return <Printed text={textOf(value)} label={type === "text/plain" ? "Output" : `${plain(type)}, as text`} />;
}

/**
 * HTML in a frame without scripts and without an origin. The daemon sends it as it sends files of HTML: by a policy that runs
 * nothing and loads nothing. It takes it from a file of the session, so one that this page did not run is drawn on demand.
 */
function Page({ session, html, text, ran }: { session: string; html: string; text: string; ran: boolean }) {
  const [wanted, setWanted] = useState(ran);
  const [path, setPath] = useState<string>();
  const [problem, setProblem] = useState<unknown>();
  useEffect(() => {
    if (!wanted) return;
    let over = false;
    const name = `/workspace/.sandkasten-outputs/notebook-${crypto.randomUUID()}.html`;
    const write = async () => {
      await (await client.getSession(session)).write(name, html);
      if (!over) setPath(name);
    };
    write().catch((error: unknown) => {
      if (!over) setProblem(error);
    });
    return () => {
      over = true;
      setPath(undefined);
      // What was drawn is not kept; that the session has ended by now is no matter.
      void client.getSession(session).then((found) => found.remove(name)).catch(() => {});
    };
  }, [session, html, wanted]);
  if (path) return <iframe sandbox="" title="HTML output" src={pageURL(session, path)} className="h-80 w-full resize-y overflow-auto rounded border border-line bg-[#fff]" />;
  return (
    <div className="flex items-start gap-2">
      <Printed text={problem ? `It cannot be drawn: ${problem instanceof Error ? problem.message : String(problem)}` : text || "HTML"} />
      {!wanted && (
        <Act kind="bare" onClick={() => setWanted(true)}>
          Draw the HTML
        </Act>
      )}
    </div>
  );
}

/** tableOf is the points of one series. */
function tableOf({ x = [], y = [] }: { x?: unknown[]; y?: unknown[] }, points: number): CodeTable {
  const rows = Array.from({ length: Math.max(x.length, y.length) }, (_, at) => [x[at] ?? null, y[at] ?? null]);
  return { columns: [{ name: "x", type: "value" }, { name: "y", type: "value" }], rows, shape: [points || rows.length, 2] };
}

/** A figure in words, and its points as tables on demand. */
function Numbers({ chart }: { chart: CodeChart }) {
  const [open, setOpen] = useState(false);
  const series = useMemo(() => chart.axes.flatMap((axes) => axes.series.map((one) => ({ name: one.label || axes.title || one.type, table: tableOf(one, one.points ?? 0) }))), [chart]);
  return (
    <div className="flex flex-col gap-2">
      <p className="flex items-center gap-2 text-xs text-muted">
        {plain([chart.type || "chart", chart.title].filter(Boolean).join(", "))}: {series.length} series
        <Button kind="bare" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide the numbers" : "Show the numbers"}
        </Button>
      </p>
      {open &&
        series.map(({ name, table }, at) => (
          <div key={at}>
            <h4 className="text-xs font-medium">{plain(name)}</h4>
            <Frame table={table} />
          </div>
        ))}
    </div>
  );
}

function Encoded({ type, text, alt }: { type: string; text: string; alt: string }) {
  const data = useMemo(() => {
    try {
      return Uint8Array.from(atob(text.replace(/\s/g, "")), (c) => c.charCodeAt(0));
    } catch {
      return undefined;
    }
  }, [text]);
  return data ? <Picture type={type} data={data} alt={alt} /> : <p className="text-muted">This picture cannot be read.</p>;
}

function Printed({ text, bad = false, label = "Output" }: { text: string; bad?: boolean; label?: string }) {
  const shown = useMemo(() => lines(text.slice(0, mostText)).replace(/\n$/, ""), [text]);
  return (
    <>
      <pre tabIndex={0} aria-label={label} className={`max-h-96 min-w-0 overflow-auto font-mono text-xs break-words whitespace-pre-wrap ${bad ? "text-bad" : ""}`}>
        {shown}
      </pre>
      {text.length > mostText && <p className="text-warn">Only the beginning of the output is shown.</p>}
    </>
  );
}
