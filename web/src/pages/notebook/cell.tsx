import { memo } from "react";
import { Markdown } from "../files/markdown.js";
import { CellEditor } from "./editor.js";
import type { Cell, NotebookModel } from "./model.js";
import { Outputs } from "./outputs.js";

interface Props {
  session: string;
  model: NotebookModel;
  cell: Cell;
  number: number;
  active: boolean;
  /** Keys are text of this cell. */
  editing: boolean;
  onEdit: (id: number) => void;
}

const marks = { idle: "", waiting: "waits", running: "runs" } as const;

/** One cell: its text, and what its last run has shown. */
export const CellView = memo(function CellView({ session, model, cell, number, active, editing, onEdit }: Props) {
  const isText = cell.type === "markdown";
  const name = `${isText ? "Text" : "Code"} cell ${number}`;
  const drawn = isText && !editing && cell.source.trim() !== "";
  return (
    <section
      aria-label={name}
      aria-busy={cell.state !== "idle"}
      aria-current={active || undefined}
      data-cell={cell.id}
      tabIndex={active ? 0 : -1}
      onFocus={() => !active && model.choose(cell.id)}
      onDoubleClick={() => drawn && onEdit(cell.id)}
      className={`grid grid-cols-[5ch_minmax(0,1fr)] gap-x-2 gap-y-1 border-l-2 py-1 pr-1 pl-2 -outline-offset-2 ${active ? "border-accent" : "border-transparent"}`}
    >
      <span className="pt-1 text-right font-mono text-xs text-muted">{isText ? "" : cell.state === "idle" ? `[${cell.count ?? " "}]` : "[*]"}</span>
      {drawn ? <Markdown text={cell.source} /> : <CellEditor text={cell.source} markdown={isText} label={`Text of ${name.toLowerCase()}`} readOnly={false} editing={editing} onChange={(text) => model.edit(cell.id, text)} onFocus={() => onEdit(cell.id)} />}
      {(cell.outputs.length > 0 || cell.state !== "idle") && (
        <div className="col-start-2 flex min-w-0 flex-col gap-2 pl-1">
          <Outputs session={session} outputs={cell.outputs} ran={cell.ran === true} />
          {cell.state !== "idle" && <p className="text-xs text-muted">It {marks[cell.state]}.</p>}
        </div>
      )}
      {cell.state === "idle" && cell.durationMs !== undefined && cell.durationMs >= 1000 && <p className="col-start-2 pl-1 text-xs text-muted">{(cell.durationMs / 1000).toFixed(1)} s</p>}
    </section>
  );
});
