import { useQueries, type UseQueryResult } from "@tanstack/react-query";
import type { Entry } from "@sandkasten/sdk";
import { useCallback, useMemo } from "react";
import { client } from "../../api/client.js";
import { join } from "./paths.js";

/** One line of the tree. */
export interface TreeRow {
  path: string;
  entry: Entry;
  /** From 1 on. */
  level: number;
  /** From 1 on, among size siblings. */
  position: number;
  size: number;
  open: boolean;
}

const byName = new Intl.Collator();

/** list gives what is in a directory, directories first. */
async function list(id: string, path: string): Promise<Entry[]> {
  const entries = await (await client.getSession(id)).list(path);
  return entries.sort((a, b) => Number(b.type === "dir") - Number(a.type === "dir") || byName.compare(a.name, b.name));
}

function rowsOf(top: string, lists: Map<string, Entry[]>, opened: ReadonlySet<string>): TreeRow[] {
  const rows: TreeRow[] = [];
  const add = (dir: string, level: number) => {
    const entries = lists.get(dir) ?? [];
    entries.forEach((entry, index) => {
      const path = join(dir, entry.name);
      const open = entry.type === "dir" && opened.has(path);
      rows.push({ path, entry, level, position: index + 1, size: entries.length, open });
      if (open) add(path, level + 1);
    });
  };
  add(top, 1);
  return rows;
}

/** useRows gives the lines of a tree: what is in top, and in each directory of it that is opened. Only those are asked for. */
export function useRows(id: string, top: string, opened: ReadonlySet<string>): { rows: TreeRow[]; error: unknown; isPending: boolean } {
  const dirs = useMemo(() => [top, ...opened], [top, opened]);
  const combine = useCallback(
    (results: UseQueryResult<Entry[]>[]) => {
      const lists = new Map(dirs.flatMap((dir, at) => (results[at]?.data ? [[dir, results[at].data] as const] : [])));
      const rows = rowsOf(top, lists, opened);
      // A directory that is gone from its own is no mistake of anybody's.
      const shown = new Set([top, ...rows.filter(({ open }) => open).map(({ path }) => path)]);
      const failed = results.find(({ error }, at) => error !== null && shown.has(dirs[at] ?? ""));
      return { rows, error: failed?.error, isPending: results[0]?.isPending ?? true };
    },
    [top, dirs, opened],
  );
  return useQueries({ queries: dirs.map((dir) => ({ queryKey: ["files", id, dir], queryFn: () => list(id, dir) })), combine });
}
