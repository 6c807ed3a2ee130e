import { useState } from "react";
import { plain } from "./text.js";

/** write puts text on the clipboard, also of a page without TLS, where there is only the old way. */
export async function write(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const focused = document.activeElement;
  const box = document.createElement("textarea");
  box.value = text;
  box.style.position = "fixed";
  box.style.opacity = "0";
  (document.querySelector("[role=dialog]") ?? document.body).append(box); // a dialog takes the focus back from outside
  box.select();
  const done = document.execCommand("copy");
  box.remove();
  if (focused instanceof HTMLElement) focused.focus({ preventScroll: true });
  if (!done) throw new Error("the browser does not copy");
}

/** What can be pasted into a terminal, with a button that copies it. */
export function Copy({ text, label = "Copy", block = false }: { text: string; label?: string; block?: boolean }) {
  const [said, setSaid] = useState<string>();
  const copy = async () => {
    setSaid(await write(text).then(() => "copied", () => "select it by hand"));
    setTimeout(() => setSaid(undefined), 1500);
  };
  const button = (
    <button type="button" onClick={copy} aria-label={`${label}: ${block ? "code" : plain(text)}`} className="shrink-0 rounded px-1 text-xs text-muted hover:bg-sunk hover:text-text">
      {said ?? "copy"}
    </button>
  );
  if (!block) {
    return (
      <span className="inline-flex max-w-full items-center gap-1">
        <code className="truncate font-mono text-xs">{plain(text)}</code>
        {button}
      </span>
    );
  }
  return (
    <div className="flex items-start rounded border border-line bg-sunk">
      <pre tabIndex={0} className="min-w-0 flex-1 overflow-x-auto p-3 font-mono text-xs whitespace-pre">
        {text}
      </pre>
      <div className="p-2">{button}</div>
    </div>
  );
}
