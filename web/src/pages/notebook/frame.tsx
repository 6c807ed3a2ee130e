import type { CodeTable } from "@sandkasten/sdk";
import { useMemo, useState } from "react";
import { plain } from "../../ui/text.js";

type Order = { column: number; down: boolean } | undefined;

function compare(a: unknown, b: unknown): number {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1; // holes come last
  if (b === null || b === undefined) return -1;
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

/** sorted is the places of the rows in an order. */
function sorted(rows: readonly (readonly unknown[])[], order: Order): number[] {
  const places = rows.map((_, at) => at);
  if (!order) return places;
  return places.sort((a, b) => {
    const [x, y] = [rows[a]?.[order.column], rows[b]?.[order.column]];
    const hole = x === null || y === null;
    return compare(x, y) * (order.down && !hole ? -1 : 1) || a - b;
  });
}

const number = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 6 });
const shown = (value: unknown): string => (value === null || value === undefined ? "\u2013" : typeof value === "number" ? number.format(value) : plain(String(value)));

/** A data frame, as far as the answer has it. A press on a head sorts the rows, another one the other way. */
export function Frame({ table }: { table: CodeTable }) {
  const [order, setOrder] = useState<Order>();
  const all = useMemo(() => table.rows.map((row): readonly unknown[] => row ?? []), [table]);
  const places = useMemo(() => sorted(all, order), [all, order]);
  const numeric = table.columns.map((_, at) => all.every((row) => row[at] === null || typeof row[at] === "number"));
  const [rows = 0, columns = 0] = table.shape;
  const cut = rows > table.rows.length || columns > table.columns.length;
  const press = (column: number) => setOrder(order?.column !== column ? { column, down: false } : order.down ? undefined : { column, down: true });
  return (
    <figure className="min-w-0">
      <div role="region" aria-label="Table" tabIndex={0} data-wide className="max-h-96 overflow-auto rounded border border-line">
        <table className="text-left text-xs">
          <thead className="sticky top-0 bg-sunk">
            <tr>
              {table.index && <td className="px-3" />}
              {table.columns.map((column, at) => (
                <th key={at} scope="col" aria-sort={order?.column !== at ? "none" : order.down ? "descending" : "ascending"} className={`font-medium whitespace-nowrap ${numeric[at] ? "text-right" : ""}`}>
                  <button type="button" title={`${plain(column.type)}; sorts the rows`} className="h-8 px-3 hover:text-accent" onClick={() => press(at)}>
                    {plain(column.name) || "\u00a0"}
                    <span aria-hidden className="inline-block w-3 text-muted">
                      {order?.column !== at ? "" : order.down ? "\u2193" : "\u2191"}
                    </span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {places.map((at) => (
              <tr key={at} className="border-t border-line hover:bg-sunk">
                {table.index && (
                  <th scope="row" className="px-3 py-1 font-normal text-muted">
                    {shown(table.index[at])}
                  </th>
                )}
                {table.columns.map((_, column) => (
                  <td key={column} className={`max-w-72 truncate px-3 py-1 whitespace-nowrap ${numeric[column] ? "pr-6 text-right" : ""}`}>
                    {shown(all[at]?.[column])}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <figcaption className="pt-1 text-xs text-muted">
        {rows} rows, {columns} columns{cut && `; the first ${table.rows.length} and ${table.columns.length} are here`}
      </figcaption>
    </figure>
  );
}
