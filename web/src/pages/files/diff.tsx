import { unifiedMergeView } from "@codemirror/merge";
import { EditorState } from "@codemirror/state";
import { EditorView, lineNumbers } from "@codemirror/view";
import { useEffect, useRef } from "react";
import { marked } from "../../ui/text.js";
import { shared } from "./codemirror.js";
import { language } from "./languages.js";

/** How the text before became the text after: only what differs, and some lines around it. */
export default function Diff({ name, before, after, label }: { name: string; before: string; after: string; label: string }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let view: EditorView | undefined;
    let gone = false;
    void language(name)
      .catch(() => [])
      .then((colours) => {
        if (gone || !box.current) return;
        view = new EditorView({
          parent: box.current,
          doc: marked(after),
          extensions: [
            shared,
            colours,
            lineNumbers(),
            EditorState.readOnly.of(true),
            EditorView.editable.of(false),
            EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
            // What was removed is drawn by the library, without our marks, so that they are made part of the text before.
            // Two texts that have little in common are compared roughly, and not for seconds.
            unifiedMergeView({ original: marked(before), mergeControls: false, collapseUnchanged: { margin: 3, minSize: 6 }, diffConfig: { scanLimit: 1000, timeout: 300 } }),
          ],
        });
      });
    return () => {
      gone = true;
      view?.destroy();
    };
  }, [name, before, after, label]);
  return <div ref={box} data-wide className="h-full min-h-0 overflow-hidden rounded border border-line" />;
}
