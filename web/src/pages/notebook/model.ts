/** The cells of a session's notebook, and the runs that fill them. They stay while other tabs of the page are shown. */
import type { CodeContext, CodeError, CodeResult } from "@sandkasten/sdk";
import { client, signedOut } from "../../api/client.js";
import { wouldLose } from "../../ui/leave.js";
import { store, type Store } from "../../ui/store.js";

export type Output = { kind: "text"; name: "stdout" | "stderr"; text: string } | { kind: "result"; result: CodeResult } | { kind: "error"; error: CodeError } | { kind: "note"; text: string };

export interface Cell {
  id: number;
  type: "code" | "markdown";
  source: string;
  outputs: readonly Output[];
  count?: number | undefined;
  state: "idle" | "waiting" | "running";
  /** The outputs come from a run of this page, and not from a file that was opened. */
  ran?: boolean | undefined;
  durationMs?: number | undefined;
}

export interface Notebook {
  cells: readonly Cell[];
  /** Cells that were deleted, with their places, the newest last. */
  deleted: readonly { cell: Cell; at: number }[];
  /** The cell that has the keys. */
  active: number;
  /** The name of the context in which cells run; empty is the default one, which the first run makes. */
  context: string;
  path: string;
  changed: boolean;
  problem?: unknown;
}

/** The context that the first run without another one makes. */
export const defaultContext = "default-python";

const mostDeleted = 50;
/** How much text of one stream a cell shows; the middle is left out. */
const mostText = 200_000;

let lastId = 0;
export const newCell = (type: Cell["type"] = "code", source = ""): Cell => ({ id: ++lastId, type, source, outputs: [], state: "idle" });

function empty(): Notebook {
  const cell = newCell();
  return { cells: [cell], deleted: [], active: cell.id, context: "", path: "notebook.ipynb", changed: false };
}

/** One session's notebook. */
export class NotebookModel {
  readonly state: Store<Notebook> = store<Notebook>(empty());
  readonly #session: string;
  /** Cells wait for those before them. */
  #queue: Promise<void> = Promise.resolve();
  /** It grows when what waits is not to run any more. */
  #round = 0;

  constructor(session: string) {
    this.#session = session;
  }

  #set(change: Partial<Notebook>): void {
    this.state.set({ ...this.state.get(), ...change });
    wouldLose(this, this.state.get().changed);
  }

  #cell(id: number, change: (cell: Cell) => Partial<Cell>): void {
    this.#set({ cells: this.state.get().cells.map((cell) => (cell.id === id ? { ...cell, ...change(cell) } : cell)) });
  }

  choose = (active: number) => this.#set({ active });
  switchContext = (context: string) => this.#set({ context, problem: undefined });
  fail = (problem: unknown) => this.#set({ problem });

  edit(id: number, source: string): void {
    this.#cell(id, () => ({ source }));
    this.#set({ changed: true });
  }

  setType(id: number, type: Cell["type"]): void {
    this.#cell(id, () => ({ type, outputs: [], count: undefined }));
    this.#set({ changed: true });
  }

  /** insert puts an empty cell above or below another, and gives its id. */
  insert(by: number, place: "above" | "below"): number {
    const { cells } = this.state.get();
    const cell = newCell();
    const at = Math.max(0, cells.findIndex(({ id }) => id === by)) + (place === "below" ? 1 : 0);
    this.#set({ cells: cells.toSpliced(at, 0, cell), active: cell.id, changed: true });
    return cell.id;
  }

  remove(id: number): void {
    const { cells, deleted } = this.state.get();
    const at = cells.findIndex((cell) => cell.id === id);
    const cell = cells[at];
    if (!cell || cell.state !== "idle") return;
    const left = cells.length === 1 ? [newCell()] : cells.toSpliced(at, 1);
    this.#set({ cells: left, deleted: [...deleted, { cell, at }].slice(-mostDeleted), active: left[Math.min(at, left.length - 1)]!.id, changed: true });
  }

  /** undo brings back the cell that was deleted last. */
  undo(): boolean {
    const { cells, deleted } = this.state.get();
    const last = deleted.at(-1);
    if (!last) return false;
    this.#set({ cells: cells.toSpliced(last.at, 0, last.cell), deleted: deleted.slice(0, -1), active: last.cell.id, changed: true });
    return true;
  }

  /** beside gives the id of the cell before or behind another. */
  beside(id: number, by: 1 | -1): number | undefined {
    const { cells } = this.state.get();
    return cells[cells.findIndex((cell) => cell.id === id) + by]?.id;
  }

  load(cells: readonly Cell[], path: string): void {
    this.#round++;
    this.#set({ ...empty(), cells: cells.length > 0 ? cells : [newCell()], path, context: this.state.get().context });
    this.#set({ active: this.state.get().cells[0]!.id });
  }

  saved = (path: string) => this.#set({ path, changed: false, problem: undefined });

  /** run runs a cell behind those that were asked for before it. One that fails ends those that wait. */
  run(id: number): void {
    const cell = this.state.get().cells.find((one) => one.id === id);
    if (cell?.type !== "code" || cell.state !== "idle") return;
    this.#cell(id, () => ({ state: "waiting" }));
    const round = this.#round;
    this.#queue = this.#queue.then(async () => {
      const waits = this.state.get().cells.some((one) => one.id === id && one.state === "waiting");
      if (!waits || round !== this.#round) return;
      await this.#run(id);
    });
  }

  runAll(): void {
    for (const { id } of this.state.get().cells) this.run(id);
  }

  async #run(id: number): Promise<void> {
    const { cells, context } = this.state.get();
    const code = cells.find((one) => one.id === id)!.source;
    this.#cell(id, () => ({ state: "running", outputs: [], count: undefined, durationMs: undefined, ran: true }));
    this.#set({ changed: true, problem: undefined });
    const add = (output: Output) => this.#cell(id, ({ outputs }) => ({ outputs: added(outputs, output) }));
    const callbacks = {
      onStdout: (text: string) => add({ kind: "text", name: "stdout", text }),
      onStderr: (text: string) => add({ kind: "text", name: "stderr", text }),
      onResult: (result: CodeResult) => add({ kind: "result", result }),
      onUpdate: (result: CodeResult) => this.#cell(id, ({ outputs }) => ({ outputs: outputs.map((one) => (one.kind === "result" && one.result.displayId === result.displayId ? { kind: "result", result } : one)) })),
      onClear: () => this.#cell(id, () => ({ outputs: [] })),
      onError: (error: CodeError) => add({ kind: "error", error }),
    };
    let good = false;
    try {
      const session = await client.getSession(this.#session);
      const run = await (context === "" ? session.runCode(code, callbacks) : session.context(context).run(code, callbacks));
      good = run.cause === "completed";
      for (const text of notes(run.info)) add({ kind: "note", text });
      this.#cell(id, () => ({ count: run.info.executionCount || undefined, durationMs: run.info.durationMs }));
    } catch (error) {
      this.#set({ problem: error });
    }
    if (!good) this.#stopWaiting();
    this.#cell(id, () => ({ state: "idle" }));
  }

  #stopWaiting(): void {
    this.#round++;
    this.#set({ cells: this.state.get().cells.map((cell) => (cell.state === "waiting" ? { ...cell, state: "idle" } : cell)) });
  }

  /** interrupt ends what runs as Ctrl-C does, and what waits does not run. */
  async interrupt(): Promise<void> {
    this.#stopWaiting();
    await this.#ask((context) => context.interrupt());
  }

  /** restart gives the context a kernel without variables. */
  async restart(): Promise<void> {
    this.#stopWaiting();
    await this.#ask((context) => context.restart());
  }

  async #ask(act: (context: CodeContext) => Promise<unknown>): Promise<void> {
    try {
      const session = await client.getSession(this.#session);
      await act(session.context(this.state.get().context || defaultContext));
      this.#set({ problem: undefined });
    } catch (error) {
      this.#set({ problem: error });
    }
  }
}

/** added joins text to that of the same stream before it, so that a loop of prints is one output. */
function added(outputs: readonly Output[], output: Output): readonly Output[] {
  const last = outputs.at(-1);
  if (output.kind !== "text" || last?.kind !== "text" || last.name !== output.name) return [...outputs, output];
  const text = last.text + output.text;
  const cut = text.length > mostText ? `${text.slice(0, mostText / 2)}\n[\u2026]\n${text.slice(-mostText / 2)}` : text;
  return [...outputs.slice(0, -1), { ...output, text: cut }];
}

interface Ended {
  cause: string;
  stateLost: boolean;
  newKernel: boolean;
  diskFull?: boolean;
  stdoutFile?: string;
  stderrFile?: string;
  droppedResults?: number;
}

/** notes is what else a reader has to know of a run. */
function notes(run: Ended): string[] {
  const told: string[] = [];
  if (run.newKernel) told.push("It ran in a new kernel: the variables of before are gone.");
  if (run.cause === "interrupted") told.push("Interrupted; variables are kept.");
  if (run.cause === "timeout") told.push(run.stateLost ? "The time was up, and variables are gone." : "The time was up; variables are kept.");
  else if (run.stateLost) told.push(`The kernel ended (${run.cause}), and variables are gone. Files are kept.`);
  if (run.diskFull) told.push("The disk is full.");
  for (const file of [run.stdoutFile, run.stderrFile]) if (file) told.push(`All of the output is in ${file}.`);
  if (run.droppedResults) told.push(`${run.droppedResults} further results are not shown.`);
  return told;
}

const notebooks = new Map<string, NotebookModel>();
// What one user made is not for the next one.
signedOut.addEventListener("leave", () => {
  for (const one of notebooks.values()) wouldLose(one, false);
  notebooks.clear();
});

/** notebookOf gives the notebook of a session. */
export function notebookOf(session: string): NotebookModel {
  const found = notebooks.get(session) ?? new NotebookModel(session);
  notebooks.set(session, found);
  return found;
}
