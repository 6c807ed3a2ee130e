import type { ReactNode } from "react";
import { ErrorNote, Skeleton } from "./notes.js";

/** A page with a heading, what can be done there, and what went wrong. */
export function Page({ title, error, loading = false, actions, children }: { title: string; error?: unknown; loading?: boolean; actions?: ReactNode; children: ReactNode }) {
  return (
    <div className="flex flex-col gap-3 py-3">
      <div className="flex flex-wrap items-end gap-2 px-4">
        <h1 className="mr-2 text-lg font-semibold">{title}</h1>
        {actions}
      </div>
      {Boolean(error) && (
        <div className="px-4">
          <ErrorNote error={error} />
        </div>
      )}
      {loading ? <Skeleton /> : children}
    </div>
  );
}
