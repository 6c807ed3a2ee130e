import { useState, type FormEvent } from "react";
import { Dialog, FormButtons } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";
import { ErrorNote } from "../../ui/notes.js";

/** Asks for the name of a file or directory. It stays, and says why, if onName fails. */
export function NameDialog({ title, verb, name = "", onClose, onName }: { title: string; verb: string; name?: string; onClose: () => void; onName: (name: string) => Promise<void> }) {
  const [problem, setProblem] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const given = String(new FormData(event.currentTarget).get("name"));
    if (given === name) return onClose();
    if (given === "." || given === ".." || given.includes("/")) return setProblem("A name has no slash in it, and is not . or ..");
    setBusy(true);
    setProblem(undefined);
    try {
      await onName(given);
      onClose();
    } catch (err) {
      setProblem(err);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={onClose} title={title}>
      <form onSubmit={submit} className="flex flex-col gap-4">
        <Field
          label="Name"
          name="name"
          required
          autoFocus
          maxLength={255}
          autoComplete="off"
          spellCheck={false}
          defaultValue={name}
          className="font-mono"
          onFocus={({ target }) => target.setSelectionRange(0, name.lastIndexOf(".") > 0 ? name.lastIndexOf(".") : name.length)}
        />
        <ErrorNote error={problem} />
        <FormButtons onClose={onClose} verb={verb} disabled={busy} />
      </form>
    </Dialog>
  );
}
