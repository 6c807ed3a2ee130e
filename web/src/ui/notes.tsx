import type { ReactNode } from "react";
import { plain } from "./text.js";

export function EmptyState({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div className="mx-auto max-w-md py-16 text-center">
      <h2 className="text-base font-medium">{title}</h2>
      <div className="mt-1 text-muted">{children}</div>
    </div>
  );
}

/** What went wrong, in the daemon's own words. */
export function ErrorNote({ error }: { error: unknown }) {
  if (!error) return null;
  return (
    <p role="alert" className="rounded border border-line bg-raised px-3 py-2 text-bad">
      {plain(error instanceof Error ? error.message : String(error))}
    </p>
  );
}

export function Skeleton({ rows = 8 }: { rows?: number }) {
  return (
    <div aria-busy="true" aria-label="Loading" className="flex flex-col gap-2 p-4">
      {Array.from({ length: rows }, (_, i) => (
        <div key={i} className="h-5 rounded bg-sunk" style={{ width: `${60 + ((i * 37) % 40)}%` }} />
      ))}
    </div>
  );
}
