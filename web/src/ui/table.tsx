import type { ReactNode } from "react";

/** A table of some hundred rows at most. On a small screen it scrolls in itself. */
export function Table({ label, columns, children }: { label: string; columns: string[]; children: ReactNode }) {
  return (
    <div role="region" aria-label={label} data-wide tabIndex={0} className="overflow-x-auto border-y border-line">
      <table className="w-full text-left">
        <thead className="text-xs text-muted">
          <tr>
            {columns.map((name) => (
              <th key={name} scope="col" className="h-9 px-4 font-normal whitespace-nowrap">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Row({ children }: { children: ReactNode }) {
  return <tr className="border-t border-line -outline-offset-2 hover:bg-sunk">{children}</tr>;
}

export function Cell({ children }: { children: ReactNode }) {
  return <td className="h-9 max-w-72 truncate px-4 whitespace-nowrap">{children}</td>;
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(1, count)) / 10));
  const value = count / 1024 ** step;
  return `${step > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[step]}`;
}
