/** What the editor and the comparison share: our colours, marks for what is invisible, and what the policy of the page asks for. */
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView, highlightSpecialChars } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { nonce } from "../../ui/nonce.js";
import { hidden, plain } from "../../ui/text.js";

const theme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--sunk)", color: "var(--text)", fontSize: "12px" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", lineHeight: "18px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunk)", color: "var(--muted)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--text) 5%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 30%, transparent)" },
  ".cm-specialChar": { color: "var(--bad)" },
  ".cm-panels": { backgroundColor: "var(--raised)", color: "var(--text)" },
  ".cm-panels.cm-panels-top, .cm-panels.cm-panels-bottom": { borderColor: "var(--line)" },
  ".cm-panel.cm-search :is(input, button, label)": { fontSize: "12px" },
  ".cm-textfield": { backgroundColor: "var(--page)", border: "1px solid var(--line)", color: "var(--text)" },
  ".cm-button": { backgroundColor: "var(--raised)", backgroundImage: "none", border: "1px solid var(--line)", color: "var(--text)" },
  // Lines around, so that each colour of the text can still be read.
  ".cm-searchMatch": { backgroundColor: "transparent", outline: "1px solid var(--warn)" },
  ".cm-searchMatch-selected": { backgroundColor: "transparent", outline: "2px solid var(--warn)" },
  ".cm-selectionMatch, &.cm-focused .cm-matchingBracket": { backgroundColor: "transparent", outline: "1px solid var(--muted)" },
  "&.cm-merge-b .cm-changedLine, .cm-inlineChangedLine": { backgroundColor: "color-mix(in srgb, var(--good) 12%, transparent)" },
  "&.cm-merge-b .cm-changedText": { background: "none", textDecoration: "underline var(--good) 2px" },
  ".cm-deletedChunk": { backgroundColor: "color-mix(in srgb, var(--bad) 12%, transparent)", paddingLeft: "6px" },
  ".cm-deletedChunk .cm-deletedText": { background: "none", textDecoration: "line-through var(--bad)" },
  ".cm-collapsedLines": { background: "var(--raised)", color: "var(--muted)", borderBlock: "1px solid var(--line)" },
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier, tags.tagName, tags.heading], color: "var(--accent)" },
  { tag: tags.heading, fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom, tags.escape, tags.attributeName], color: "var(--warn)" },
  { tag: [tags.comment, tags.meta], color: "var(--muted)" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: tags.strong, fontWeight: "600" },
  { tag: [tags.link, tags.url], color: "var(--accent)", textDecoration: "underline" },
  { tag: tags.invalid, color: "var(--bad)" },
]);

// A tab has a width of its own here, and ends of lines are what the editor draws.
const invisible = new RegExp(`(?![\\t\\n])${hidden.source}`, "gu");

/** What every view of text here has. A view says itself that it can be edited. */
export const shared: Extension = [
  theme,
  syntaxHighlighting(colours),
  highlightSpecialChars({
    specialChars: invisible,
    render: (code) => {
      const mark = document.createElement("span");
      mark.className = "cm-specialChar";
      mark.textContent = plain(String.fromCodePoint(code));
      return mark;
    },
  }),
  EditorView.cspNonce.of(nonce),
];
