import { useVirtualizer } from "@tanstack/react-virtual";
import { useMemo, useRef } from "react";
import { plain } from "../../ui/text.js";
import { parse, separator } from "./csv.js";

const rowHeight = 28;
/** How much of a field is shown; the rest is in the source. */
const maxField = 300;

const short = (field: string) => plain(field.length > maxField ? `${field.slice(0, maxField)}\u2026` : field);

/** The width of each column, in characters, by its first rows. */
function widths(rows: string[][]): number[] {
  const widest: number[] = [];
  for (const row of rows.slice(0, 200)) row.forEach((field, at) => (widest[at] = Math.min(40, Math.max(widest[at] ?? 4, field.length))));
  return widest;
}

/** Comma- or tab-separated values. Only the rows that are looked at are drawn. */
export default function TableView({ name, text }: { name: string; text: string }) {
  const box = useRef<HTMLDivElement>(null);
  const { rows, cut } = useMemo(() => parse(text, separator(name, text)), [name, text]);
  const [head = [], ...body] = rows;
  const columns = useMemo(() => widths(rows), [rows]);
  const virtual = useVirtualizer({ count: body.length, getScrollElement: () => box.current, estimateSize: () => rowHeight, overscan: 8 });
  const grid = { gridTemplateColumns: `7ch ${columns.map((width) => `${width + 3}ch`).join(" ")}` };
  const cells = (fields: string[], role: string) =>
    columns.map((_, at) => (
      <span key={at} role={role} className="truncate px-2">
        {short(fields[at] ?? "")}
      </span>
    ));
  return (
    <div className="flex h-full flex-col">
      <p className="pb-2 text-muted">
        {body.length} rows, {columns.length} columns{cut && ": only the beginning is shown"}
      </p>
      <div ref={box} tabIndex={0} role="table" aria-label="Table" data-wide aria-rowcount={rows.length} aria-colcount={columns.length + 1} className="min-h-0 flex-1 overflow-auto rounded border border-line font-mono text-xs">
        <div role="row" aria-rowindex={1} style={grid} className="sticky top-0 z-10 grid h-8 w-max min-w-full items-center border-b border-line bg-raised font-medium">
          <span role="columnheader" className="px-2 text-muted">
            Row
          </span>
          {cells(head, "columnheader")}
        </div>
        <div role="rowgroup" style={{ height: virtual.getTotalSize() }} className="relative w-max min-w-full">
          {virtual.getVirtualItems().map(({ index, start }) => (
            <div key={index} role="row" aria-rowindex={index + 2} style={{ ...grid, transform: `translateY(${start}px)`, height: rowHeight }} className="absolute top-0 left-0 grid w-max min-w-full items-center border-b border-line">
              <span role="rowheader" className="px-2 text-muted">
                {index + 1}
              </span>
              {cells(body[index] ?? [], "cell")}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
