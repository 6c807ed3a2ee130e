import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useId, useRef, type KeyboardEvent } from "react";
import { bytes } from "../../ui/table.js";
import { Text, plain } from "../../ui/text.js";
import { Ago } from "../../ui/time.js";
import { parent } from "./paths.js";
import type { TreeRow } from "./rows.js";

const rowHeight = 28;
/** Deeper levels are not moved further: on a small screen nothing would be left of their names. */
const maxIndent = 8;

export interface TreeActions {
  onActive: (path: string) => void;
  /** Opens or closes a directory. */
  onToggle: (path: string) => void;
  onOpen: (row: TreeRow) => void;
  onRename: () => void;
  onDelete: () => void;
}

/** The rows of a tree of files. Only those that are seen are in the page, and one of them is active. */
export function Tree({ rows, active, onActive, onToggle, onOpen, onRename, onDelete }: { rows: TreeRow[]; active: string | undefined } & TreeActions) {
  const box = useRef<HTMLDivElement>(null);
  const name = useId();
  const at = rows.findIndex(({ path }) => path === active);
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => rowHeight, overscan: 12, getItemKey: (i) => rows[i]?.path ?? i });
  const row = rows[at];
  const there = at >= 0;
  // What is made becomes active before the list has it.
  useEffect(() => {
    if (!there || !box.current) return;
    // The virtual list knows of a scroll a frame later, and would move a row that is clicked from under the pointer.
    const { scrollTop, clientHeight } = box.current;
    const top = at * rowHeight;
    if (top < scrollTop || top + rowHeight > scrollTop + clientHeight) virtual.scrollToIndex(at);
  }, [active, there]);

  const go = (next: number) => {
    const to = Math.max(0, Math.min(rows.length - 1, next));
    const path = rows[to]?.path;
    if (path !== undefined) onActive(path);
  };
  const enter = (one: TreeRow) => (one.entry.type === "dir" ? onToggle(one.path) : onOpen(one));
  /** The next row whose name begins with a letter, from the active one on and around the end. */
  const find = (letter: string) => {
    const next = [...rows.keys()].map((i) => (at + 1 + i) % rows.length).find((i) => rows[i]?.entry.name.toLowerCase().startsWith(letter.toLowerCase()));
    if (next !== undefined) go(next);
  };
  const right = () => {
    if (row?.entry.type !== "dir") return;
    if (!row.open) onToggle(row.path);
    else if (rows[at + 1]?.level === row.level + 1) go(at + 1);
  };
  const left = () => {
    if (row?.open) onToggle(row.path);
    else if (row) go(Math.max(0, rows.findIndex(({ path }) => path === parent(row.path))));
  };
  const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / rowHeight) - 1);
  const keys: Record<string, () => void> = {
    ArrowDown: () => go(at + 1),
    ArrowUp: () => go(at - 1),
    PageDown: () => go(at + page),
    PageUp: () => go(at - page),
    Home: () => go(0),
    End: () => go(rows.length - 1),
    ArrowRight: right,
    ArrowLeft: left,
    Enter: () => row && enter(row),
    F2: () => row && onRename(),
    Delete: () => row && onDelete(),
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = keys[event.key] ?? (event.key.length === 1 && event.key !== " " ? () => find(event.key) : undefined);
    if (!act) return;
    event.preventDefault();
    act();
  };
  const items = virtual.getVirtualItems();
  const seen = at >= 0 && items.some(({ index }) => index === at);
  return (
    <div
      ref={box}
      role="tree"
      aria-label="Files"
      tabIndex={0}
      aria-activedescendant={seen ? `${name}${at}` : undefined}
      onKeyDown={press}
      onFocus={() => active === undefined && go(0)}
      className="group min-h-0 flex-1 overflow-y-auto outline-none"
    >
      <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
        {items.map(({ index, key, start }) => {
          const one = rows[index];
          if (!one) return null;
          const { entry, path, level, open } = one;
          const dir = entry.type === "dir";
          return (
            <div
              key={key}
              id={`${name}${index}`}
              role="treeitem"
              aria-label={plain(entry.name)}
              aria-level={level}
              aria-posinset={one.position}
              aria-setsize={one.size}
              aria-expanded={dir ? open : undefined}
              aria-selected={index === at}
              data-dir={dir ? path : parent(path)}
              onClick={() => onActive(path)}
              onDoubleClick={() => !dir && onOpen(one)}
              className={`absolute flex w-full items-center gap-2 border-b border-line pr-4 ${index === at ? "bg-sunk -outline-offset-2 outline-accent group-focus-visible:outline-2" : "hover:bg-sunk"}`}
              style={{ top: start, height: rowHeight, paddingLeft: 16 + Math.min(level - 1, maxIndent) * 16 }}
            >
              <span className={`min-w-0 flex-1 truncate ${dir ? "cursor-pointer" : ""}`} onClick={(event) => dir && event.detail === 1 && onToggle(path)}>
                <span aria-hidden className="inline-block w-4 text-muted">
                  {dir ? (open ? "\u25be" : "\u25b8") : ""}
                </span>
                <Text of={dir ? `${entry.name}/` : entry.target ? `${entry.name} \u2192 ${entry.target}` : entry.name} className={dir ? "text-accent" : ""} />
              </span>
              <span className="text-right whitespace-nowrap text-muted">{entry.type === "file" ? bytes(entry.size) : dir ? "" : entry.type}</span>
              <span className="w-16 text-right whitespace-nowrap text-muted">
                <Ago at={entry.modifiedAt} />
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}
