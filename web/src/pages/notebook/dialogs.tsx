/** What the notebook asks in dialogs: which file to open, where to save, and what a new context is called. */
import { useQuery } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { client } from "../../api/client.js";
import { look } from "../../ui/button.js";
import { Button } from "../../ui/button.js";
import { Dialog, FormButtons } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";
import { ErrorNote, Skeleton } from "../../ui/notes.js";
import { bytes } from "../../ui/table.js";
import { plain } from "../../ui/text.js";
import { cellsOf } from "./ipynb.js";
import type { NotebookModel } from "./model.js";

/** How large a notebook may be that is opened. */
const mostBytes = 32 << 20;

interface Props {
  session: string;
  model: NotebookModel;
  onClose: () => void;
}

/** Opens a notebook of the session, or of this machine. Nothing of it runs by that. */
export function OpenDialog({ session, model, onClose }: Props) {
  const [problem, setProblem] = useState<unknown>();
  const { changed } = model.state.use();
  const { data, error, isPending } = useQuery({ queryKey: ["notebooks", session], gcTime: 0, queryFn: async () => (await client.getSession(session)).glob("**/*.ipynb") });
  const attempt = async (path: string, read: () => Promise<{ size: number; text: string }>) => {
    setProblem(undefined);
    try {
      const { size, text } = await read();
      if (size > mostBytes) throw new Error(`It has more than ${bytes(mostBytes)}.`);
      model.load(cellsOf(text), path);
      onClose();
    } catch (err) {
      setProblem(err);
    }
  };
  const ofSession = (path: string) =>
    attempt(path, async () => {
      const read = await (await client.getSession(session)).read(path, { maxBytes: mostBytes + 1 });
      return { size: read.length, text: read.length > mostBytes ? "" : new TextDecoder().decode(read) };
    });
  const ofMachine = (file: File) => attempt(file.name, async () => ({ size: file.size, text: file.size > mostBytes ? "" : await file.text() }));
  return (
    <Dialog open onClose={onClose} title="Open a notebook">
      <div className="flex flex-col gap-3">
        {changed && <p className="text-warn">What is here is not saved, and another notebook takes its place.</p>}
        <ErrorNote error={problem ?? error} />
        {isPending ? (
          <Skeleton rows={3} />
        ) : data?.length === 0 ? (
          <p className="text-muted">There is none in the session&apos;s workspace.</p>
        ) : (
          <ul className="max-h-64 overflow-auto border-y border-line">
            {data?.map(({ name: path }) => (
              <li key={path}>
                <button type="button" className="w-full px-2 py-1 text-left font-mono text-xs break-all hover:bg-sunk" onClick={() => void ofSession(path)}>
                  {plain(path)}
                </button>
              </li>
            ))}
          </ul>
        )}
        <div className="flex justify-end gap-2">
          <label className={`${look()} relative focus-within:outline-2 focus-within:outline-accent`}>
            From this machine
            <input type="file" accept=".ipynb,application/json" className="absolute inset-0 opacity-0" onChange={(event) => event.target.files?.[0] && void ofMachine(event.target.files[0])} />
          </label>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </div>
    </Dialog>
  );
}

/** Another kernel, with variables of its own. */
export function NewContextDialog({ session, model, onClose }: Props) {
  const [problem, setProblem] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const make = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    setBusy(true);
    setProblem(undefined);
    try {
      const made = await (await client.getSession(session)).createContext(String(given.get("language")), { name: String(given.get("name")) });
      model.switchContext(made.info?.name ?? made.id);
      onClose();
    } catch (error) {
      setProblem(error);
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={onClose} title="New context">
      <form onSubmit={make} className="flex flex-col gap-3">
        <ErrorNote error={problem} />
        <p className="text-muted">A kernel with variables of its own, in the same session.</p>
        <Field label="Name" name="name" required maxLength={64} pattern="[A-Za-z0-9._+#\-]+" autoComplete="off" />
        <Field label="Language, or the name of a kernel" name="language" required defaultValue="python" autoComplete="off" />
        <FormButtons onClose={onClose} verb={busy ? "Starting\u2026" : "Start"} disabled={busy} />
      </form>
    </Dialog>
  );
}
