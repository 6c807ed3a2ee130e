import { Dialog as Base } from "@base-ui/react/dialog";
import type { ReactNode } from "react";
import { Button } from "./button.js";

interface Props {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  wide?: boolean | "full";
  /** A click beside it closes it: nothing in it would be lost. */
  light?: boolean;
}

/** A dialog closes by Escape and by its buttons. A click beside it does nothing, lest what is typed or shown once is lost. */
export function Dialog({ open, onClose, title, children, wide = false, light = false }: Props) {
  return (
    <Base.Root open={open} onOpenChange={(next) => !next && onClose()} disablePointerDismissal={!light}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-[rgb(0_0_0/0.45)]" />
        <Base.Popup
          className={`fixed z-50 top-[8vh] left-1/2 max-h-[84vh] w-[calc(100vw-24px)] -translate-x-1/2 overflow-y-auto rounded-lg border border-line bg-raised p-5 shadow-xl ${wide === "full" ? "max-w-6xl" : wide ? "max-w-3xl" : "max-w-md"}`}
        >
          <Base.Title className="mb-4 text-lg font-medium">{title}</Base.Title>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

/** The last line of a form in a dialog: leave it, or do what verb says. */
export function FormButtons({ onClose, verb, kind = "main", disabled = false }: { onClose: () => void; verb: string; kind?: "main" | "bad"; disabled?: boolean }) {
  return (
    <div className="flex justify-end gap-2">
      <Button onClick={onClose}>Cancel</Button>
      <Button kind={kind} type="submit" disabled={disabled}>
        {verb}
      </Button>
    </div>
  );
}
