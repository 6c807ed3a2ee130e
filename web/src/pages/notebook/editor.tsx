import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { EditorState, Prec, StateEffect } from "@codemirror/state";
import { EditorView, drawSelection, keymap } from "@codemirror/view";
import { useEffect, useEffectEvent, useRef } from "react";
import { shared } from "../files/codemirror.js";
import { replaceSelected } from "../files/editor.js";
import { language } from "../files/languages.js";

interface Props {
  text: string;
  markdown: boolean;
  label: string;
  readOnly: boolean;
  /** It has the focus as soon as this is true. */
  editing: boolean;
  onChange: (text: string) => void;
  onFocus: () => void;
}

/** The text of one cell, as high as its lines. Tab indents; Escape leaves it for the cell, and what runs it is the notebook's. */
export function CellEditor({ text, markdown, label, readOnly, editing, onChange, onFocus }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(undefined);
  const changed = useEffectEvent(onChange);
  const focused = useEffectEvent(onFocus);
  const begin = useEffectEvent((parent: HTMLDivElement) => {
    const view = new EditorView({
      parent,
      extensions: [
        shared,
        drawSelection(),
        history(),
        indentOnInput(),
        indentUnit.of("    "),
        bracketMatching(),
        EditorState.readOnly.of(readOnly),
        keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": String(readOnly), tabindex: "-1" }),
        EditorView.domEventHandlers({ beforeinput: replaceSelected, focus: () => focused() }),
        // Before any other key: the notebook runs the cell then.
        Prec.highest(EditorView.domEventHandlers({ keydown: (event) => event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey || event.altKey) })),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    });
    editor.current = view;
    return view;
  });
  useEffect(() => {
    const view = begin(box.current!);
    return () => view.destroy();
  }, []);
  useEffect(() => {
    const view = editor.current;
    if (view && view.state.doc.toString() !== text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
  }, [text]);
  useEffect(() => {
    // Colours are loaded for what the cell is; without them a text is as good.
    let over = false;
    language(markdown ? "cell.md" : "cell.py").then(
      (colours) => {
        if (!over) editor.current?.dispatch({ effects: StateEffect.appendConfig.of(colours) });
      },
      () => {},
    );
    return () => void (over = true);
  }, [markdown]);
  useEffect(() => {
    if (editing) editor.current?.focus();
  }, [editing]);
  return <div ref={box} data-wide className="min-w-0 overflow-hidden rounded border border-line" />;
}
