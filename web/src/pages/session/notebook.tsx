/** Cells of code that run in the session's contexts, with what they show. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { client } from "../../api/client.js";
import { Button } from "../../ui/button.js";
import { DeleteButton } from "../../ui/confirm.js";
import { singleKeys } from "../../ui/keys.js";
import { ErrorNote } from "../../ui/notes.js";
import { plain } from "../../ui/text.js";
import { CellView } from "../notebook/cell.js";
import { NewContextDialog, OpenDialog } from "../notebook/dialogs.js";
import { notebookText } from "../notebook/ipynb.js";
import { defaultContext, notebookOf, type NotebookModel } from "../notebook/model.js";

/** How often it is asked which contexts there are, which is no event. */
const pollMs = 5000;
/** How long the second key of two may take. */
const secondMs = 1500;

export default function NotebookTab({ id }: { id: string }) {
  const model = notebookOf(id);
  const { cells, active, problem } = model.state.use();
  const [editing, setEditing] = useState<number>();
  const list = useRef<HTMLDivElement>(null);
  /** The active cell has to have the focus when it is drawn. */
  const follow = useRef(false);
  useEffect(() => {
    if (!follow.current) return;
    follow.current = false;
    const cell = list.current?.querySelector<HTMLElement>(`[data-cell="${active}"]`);
    cell?.focus({ preventScroll: true });
    cell?.scrollIntoView({ block: "nearest" });
  });
  const command = useCommands(model, editing, setEditing, follow);
  const edit = (cell: number) => {
    model.choose(cell);
    setEditing(cell);
  };
  return (
    <div className="flex h-full flex-col">
      <Tools id={id} model={model} onEdit={edit} />
      <div className="px-4">
        <ErrorNote error={problem} />
      </div>
      <div ref={list} role="region" aria-label="Notebook" tabIndex={-1} onKeyDown={command} onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && setEditing(undefined)} className="min-h-0 flex-1 overflow-auto px-2 pb-16 sm:px-4">
        {cells.map((cell, at) => (
          <CellView key={cell.id} session={id} model={model} cell={cell} number={at + 1} active={cell.id === active} editing={cell.id === editing} onEdit={edit} />
        ))}
      </div>
    </div>
  );
}

/** useCommands gives what keys do in the notebook: those of Jupyter. */
function useCommands(model: NotebookModel, editing: number | undefined, setEditing: (id: number | undefined) => void, follow: { current: boolean }) {
  const first = useRef({ key: "", at: 0 });
  const leave = () => {
    setEditing(undefined);
    follow.current = true;
  };
  const go = (id: number | undefined) => {
    if (id === undefined) return;
    model.choose(id);
    follow.current = true;
  };
  const run = (id: number, then: "stay" | "next" | "insert") => {
    model.run(id);
    leave();
    if (then === "insert") setEditing(model.insert(id, "below"));
    else if (then === "next") model.choose(model.beside(id, 1) ?? model.insert(id, "below"));
  };
  /** Keys of a cell that is not edited. */
  const single: Record<string, (id: number) => void> = {
    a: (id) => go(model.insert(id, "above")),
    b: (id) => go(model.insert(id, "below")),
    m: (id) => model.setType(id, "markdown"),
    y: (id) => model.setType(id, "code"),
    z: () => void (model.undo() && (follow.current = true)),
    j: (id) => go(model.beside(id, 1)),
    k: (id) => go(model.beside(id, -1)),
    "d d": (id) => {
      model.remove(id);
      follow.current = true;
    },
    "i i": () => void model.interrupt(),
    "0 0": () => void model.restart(),
  };
  return (event: KeyboardEvent) => {
    const { active } = model.state.get();
    const target = event.target as HTMLElement;
    const done = () => event.preventDefault();
    if (event.nativeEvent.isComposing) return;
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey)) {
      run(active, event.shiftKey ? "next" : event.altKey ? "insert" : "stay");
      return done();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (editing !== undefined && target.closest(".cm-editor")) {
      if (event.key !== "Escape") return;
      leave();
      return done();
    }
    if (!target.matches("[data-cell]")) return;
    if (event.key === "Enter") {
      setEditing(active);
      return done();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      go(model.beside(active, event.key === "ArrowDown" ? 1 : -1));
      return done();
    }
    if (!singleKeys.get() || event.key.length !== 1) return;
    const twice = event.timeStamp - first.current.at < secondMs && first.current.key === event.key;
    first.current = twice ? { key: "", at: 0 } : { key: event.key, at: event.timeStamp };
    const act = (twice ? single[`${event.key} ${event.key}`] : undefined) ?? single[event.key];
    if (act) act(active);
    if (act || `${event.key} ${event.key}` in single) done();
  };
}

function Tools({ id, model, onEdit }: { id: string; model: NotebookModel; onEdit: (cell: number) => void }) {
  const { cells, active, context, path, changed } = model.state.use();
  const [asking, setAsking] = useState<"open" | "context">();
  const busy = cells.some(({ state }) => state !== "idle");
  const save = async () => {
    try {
      await (await client.getSession(id)).write(path, notebookText(model.state.get().cells));
      model.saved(path);
    } catch (error) {
      model.fail(error);
    }
  };
  const insert = (type: "code" | "markdown") => {
    const cell = model.insert(active, "below");
    model.setType(cell, type);
    onEdit(cell);
  };
  return (
    <div role="toolbar" aria-label="Notebook" className="flex shrink-0 flex-wrap items-center gap-2 px-4 py-2">
      <Button kind="main" title="Shift+Enter in a cell" onClick={() => model.run(active)}>
        Run
      </Button>
      <Button onClick={() => model.runAll()}>Run all</Button>
      <Button disabled={!busy} title="Keys: i i" onClick={() => void model.interrupt()}>
        Interrupt
      </Button>
      <Button title="Keys: 0 0" onClick={() => void model.restart()}>
        Restart
      </Button>
      <Contexts id={id} model={model} chosen={context} onNew={() => setAsking("context")} />
      <span className="ml-auto flex flex-wrap gap-2">
        <Button kind="bare" onClick={() => insert("code")}>
          Add code
        </Button>
        <Button kind="bare" onClick={() => insert("markdown")}>
          Add text
        </Button>
        <Button onClick={() => setAsking("open")}>Open</Button>
        <Button onClick={() => void save()} title={`Writes ${plain(path)} in the session`}>
          {changed ? "Save" : "Saved"}
        </Button>
        <Button onClick={() => download(path, notebookText(cells))}>Download</Button>
      </span>
      {asking === "open" && <OpenDialog session={id} model={model} onClose={() => setAsking(undefined)} />}
      {asking === "context" && <NewContextDialog session={id} model={model} onClose={() => setAsking(undefined)} />}
    </div>
  );
}

/** download has the browser save a text as a file. */
function download(path: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/x-ipynb+json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = path.slice(path.lastIndexOf("/") + 1);
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** The choice of the context in which cells run. */
function Contexts({ id, model, chosen, onNew }: { id: string; model: NotebookModel; chosen: string; onNew: () => void }) {
  const cache = useQueryClient();
  const queryKey = ["contexts", id];
  const { data } = useQuery({ queryKey, refetchInterval: pollMs, queryFn: async () => (await (await client.getSession(id)).contexts()).flatMap(({ info }) => info ?? []) });
  const others = (data ?? []).filter(({ status, name }) => status === "running" && name !== defaultContext).map(({ name, contextId, language }) => ({ value: name || contextId, label: `${name || contextId.slice(0, 8)} (${language})` }));
  if (chosen !== "" && !others.some(({ value }) => value === chosen)) others.push({ value: chosen, label: chosen });
  const end = async () => {
    try {
      await (await client.getSession(id)).context(chosen).delete();
      model.switchContext("");
    } catch (error) {
      model.fail(error);
    }
    await cache.invalidateQueries({ queryKey });
  };
  return (
    <>
      <select aria-label="Context" className="h-8 max-w-48 rounded border border-line bg-raised px-2 text-sm" value={chosen} onChange={(event) => model.switchContext(event.target.value)}>
        <option value="">default (python)</option>
        {others.map(({ value, label }) => (
          <option key={value} value={value}>
            {plain(label)}
          </option>
        ))}
      </select>
      <Button kind="bare" onClick={onNew}>
        New context
      </Button>
      {chosen !== "" && (
        <DeleteButton name={`the context ${chosen}`} onDelete={() => void end()}>
          Its kernel ends, with its variables and all that it started. Files are kept.
        </DeleteButton>
      )}
    </>
  );
}
