import { useState, type ReactNode } from "react";
import { Act } from "./act.js";
import { Button } from "./button.js";
import { Dialog } from "./dialog.js";
import { plain } from "./text.js";

/** Asks before something is lost, and says what. */
export function Confirm({ open, title, verb = "Delete", keep = "Keep it", onKeep, onDelete, children }: { open: boolean; title: string; verb?: string; keep?: string; onKeep: () => void; onDelete: () => void; children: ReactNode }) {
  return (
    <Dialog open={open} onClose={onKeep} title={title} light>
      <div className="mb-4">{children}</div>
      <div className="flex justify-end gap-2">
        <Button onClick={onKeep}>{keep}</Button>
        <Button kind="bad" onClick={onDelete}>
          {verb}
        </Button>
      </div>
    </Dialog>
  );
}

/** The button of a row that deletes or revokes what it shows. It asks first, and says by its children what is lost. */
export function DeleteButton({ name, verb = "Delete", onDelete, children }: { name: string; verb?: string; onDelete: () => void; children: ReactNode }) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <Act kind="bare" aria-label={`${verb} ${plain(name)}`} onClick={() => setAsking(true)}>
        {verb}
      </Act>
      <Confirm
        open={asking}
        title={`${verb} ${plain(name)}?`}
        verb={verb}
        onKeep={() => setAsking(false)}
        onDelete={() => {
          setAsking(false);
          onDelete();
        }}
      >
        {children}
      </Confirm>
    </>
  );
}
