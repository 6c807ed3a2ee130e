import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit } from "@codemirror/language";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { useEffect, useEffectEvent, useRef } from "react";
import { shared } from "./codemirror.js";
import { language } from "./languages.js";

/** Typing over coloured text makes Chromium keep its colour in a style attribute, which the policy of the page refuses. */
export function replaceSelected(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || !event.data || view.state.readOnly || view.state.selection.main.empty) return false;
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true; // the browser does nothing of its own then
}

/**
 * Text that can be changed. It begins with what it is given first and keeps its own after that. Tab indents; Escape and then
 * Tab goes on to what is next in the page. When it is active again it has the focus.
 */
export default function Editor({ name, text, readOnly, active, onChange }: { name: string; text: string; readOnly: boolean; active: boolean; onChange: (text: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const editor = useRef<EditorView>(undefined);
  const changed = useEffectEvent(onChange);
  const begin = useEffectEvent((parent: HTMLDivElement) => {
    const colours = new Compartment();
    const view = new EditorView({
      parent,
      doc: text,
      extensions: [
        shared,
        colours.of([]),
        lineNumbers(),
        highlightActiveLineGutter(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        drawSelection(),
        history(),
        indentOnInput(),
        indentUnit.of(/\n\t/.test(text) ? "\t" : "  "),
        bracketMatching(),
        EditorState.readOnly.of(readOnly),
        keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
        EditorView.contentAttributes.of({ "aria-label": "Contents", "aria-readonly": String(readOnly), tabindex: "0" }),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) changed(update.state.doc.toString());
        }),
      ],
    });
    // Without its colours a text is as good, so that a lost chunk is no error of the file.
    language(name).then((loaded) => view.dispatch({ effects: colours.reconfigure(loaded) }), () => {});
    // Escape is for the editor and its search, and would close the dialog around them.
    view.dom.addEventListener("keydown", (event) => event.key === "Escape" && event.stopPropagation());
    editor.current = view;
    return view;
  });
  useEffect(() => {
    const view = begin(box.current!);
    return () => view.destroy();
  }, []);
  const left = useRef(false);
  useEffect(() => {
    if (active && left.current) editor.current?.focus();
    left.current = !active;
  }, [active]);
  return <div ref={box} data-wide className="h-full min-h-0 overflow-hidden rounded border border-line" />;
}
