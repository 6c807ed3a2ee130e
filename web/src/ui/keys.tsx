/** Keyboard shortcuts: what is pressed, whether it may fire, and what the page's parts do then. */
import { useEffect, useRef } from "react";
import { store } from "./store.js";

const isMac = /mac/i.test(navigator.platform);
/** How the key of the palette is called here. */
export const paletteKeys = isMac ? "\u2318 K" : "Ctrl K";

/** What a terminal keeps for the page, by the code of the key. With Ctrl and Shift, since a program gets no such keys. */
export const terminalKeys = {
  KeyF: { keys: "Ctrl+Shift+F", what: "Find in the terminal" },
  KeyC: { keys: "Ctrl+Shift+C", what: "Copy what is selected" },
  Enter: { keys: "Ctrl+Shift+Enter", what: "Leave the terminal, for its buttons" },
} as const;

/** singleKeys says whether keys without Ctrl and the like do anything. They can be turned off: speech input types them by accident. */
export const singleKeys = store(localStorage.getItem("shortcuts") !== "off");

export function setSingleKeys(on: boolean) {
  if (on) localStorage.removeItem("shortcuts");
  else localStorage.setItem("shortcuts", "off");
  singleKeys.set(on);
}

/** useHint says of a control which keys do the same, for the eye and for screen readers. */
export function useHint(keys: string): { title?: string; "aria-keyshortcuts"?: string } {
  return singleKeys.use() ? { title: `Key: ${keys}`, "aria-keyshortcuts": keys } : {};
}

export function Kbd({ children }: { children: string }) {
  return <kbd className="rounded border border-line bg-sunk px-1 font-sans text-xs whitespace-nowrap text-muted">{children}</kbd>;
}

// What takes keys as text or as commands of its own.
const writes = "textarea, select, [contenteditable], [role=textbox], [data-terminal], input:not([type=checkbox], [type=radio], [type=button], [type=submit], [type=file])";
const ownKeys = "textarea, [contenteditable], [data-terminal]";

const within = (event: KeyboardEvent, selector: string) => event.target instanceof Element && event.target.closest(selector) !== null;

/** isPalette reports whether an event is the palette's key. Terminals and editors have a meaning of their own for it. */
const isPalette = (event: KeyboardEvent) => (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k" && !within(event, ownKeys);

/** What a shortcut does. It returns false if it does nothing now, and the key is left alone. */
export type Shortcuts = Record<string, () => boolean | void>;

const sets = new Set<{ current: Shortcuts }>();

/** useShortcuts has keys, as "n" or "g s", do something for as long as a component is there. */
export function useShortcuts(shortcuts: Shortcuts) {
  const newest = useRef(shortcuts);
  useEffect(() => {
    newest.current = shortcuts;
  });
  useEffect(() => {
    sets.add(newest);
    return () => void sets.delete(newest);
  }, []);
}

function fire(keys: string): boolean {
  for (const { current } of sets) {
    const act = current[keys];
    if (act && act() !== false) return true;
  }
  return false;
}

/** How long the second key of two may take. */
const secondMs = 1500;
let first = { key: "", at: 0 };

function press(event: KeyboardEvent) {
  if (event.defaultPrevented || event.isComposing || document.querySelector("[role=dialog]")) return;
  if (isPalette(event)) {
    if (fire("palette")) event.preventDefault();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || within(event, writes)) return;
  if (inTable(event)) {
    event.preventDefault();
    return;
  }
  if (!singleKeys.get() || event.key.length !== 1) return;
  const waiting = event.timeStamp - first.at < secondMs ? first.key : "";
  first = { key: "", at: 0 };
  if (waiting === "" && event.key === "g") {
    first = { key: "g", at: event.timeStamp };
    event.preventDefault();
    return;
  }
  if (fire(waiting === "" ? event.key : `${waiting} ${event.key}`)) event.preventDefault();
}

/** useKeyboard listens for as long as the console is there. */
export function useKeyboard() {
  useEffect(() => {
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

const rowsOf = (table: Element) => [...table.querySelectorAll<HTMLElement>("tbody > tr, [role=row][aria-rowindex]")];
const rowWithFocus = () => document.activeElement?.closest<HTMLElement>("main tbody > tr, main [role=row][aria-rowindex]") ?? undefined;

/** inTable does what arrows and Enter do in a table that has the focus. */
function inTable(event: KeyboardEvent): boolean {
  const focused = document.activeElement;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    return within(event, "main table, main [role=table], main [data-wide]") && moveRow(event.key === "ArrowDown" ? 1 : -1);
  }
  const row = rowWithFocus();
  return event.key === "Enter" && row !== undefined && row === focused && openRow(row);
}

/** moveRow takes the focus to the next row of the table that has it, or of the page's first one. */
export function moveRow(by: number): boolean {
  const row = rowWithFocus();
  const table = row?.closest("table, [role=table]") ?? document.querySelector("main table, main [role=table]");
  if (!table) return false;
  const rows = rowsOf(table);
  // A long table has only the rows about the visible part; without a focus the first visible one is next.
  const top = table.getBoundingClientRect().top;
  const next = row ? rows[rows.indexOf(row) + by] : (rows.find((one) => one.getBoundingClientRect().top >= top) ?? rows[0]);
  if (!next) return row !== undefined;
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}

/** openRow follows the first link of a row. Of one without, its first button gets the focus, and is not pressed: it may change something. */
export function openRow(row = rowWithFocus()): boolean {
  const link = row?.querySelector<HTMLElement>("a[href]");
  const target = link ?? row?.querySelector<HTMLElement>("button:enabled");
  if (link) link.click();
  else target?.focus();
  return target != null;
}

/** chooseRow checks the box of the row that has the focus, or takes the mark away. */
export function chooseRow(): boolean {
  const box = rowWithFocus()?.querySelector<HTMLInputElement>("input[type=checkbox]");
  box?.click();
  return box != null;
}

/** focusSearch takes the focus to the page's search. */
export function focusSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>("main input[type=search]");
  field?.focus();
  field?.select();
  return field != null;
}
