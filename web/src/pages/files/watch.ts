import { APIError } from "@sandkasten/sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { client } from "../../api/client.js";
import { pause } from "../../api/stream.js";
import { useSeen } from "../../ui/seen.js";
import { join, parent } from "./paths.js";

/** How long changes are gathered until the directories with them are read again, and until a stream that broke is begun anew. */
const gatherMs = 500;
const againMs = 5000;

/** Files that are written in one step come as one of such a name, which is renamed. */
const isTemporary = (path: string) => path.slice(path.lastIndexOf("/") + 1).startsWith(".sandkasten-");

/**
 * useWatched has directories read again in which a program changes something, while the session runs: another would be woken.
 * It needs one of the six connections that a browser has for all tabs, so a page that is hidden does not watch.
 * It says whether the daemon refuses to tell of changes, which it does for too many directories, and gives what tries it anew.
 */
export function useWatched(id: string, top: string, runs: boolean): { refused: boolean; again: () => void } {
  const cache = useQueryClient();
  const seen = useSeen();
  const [refused, setRefused] = useState(false);
  const [attempt, setAttempt] = useState(0);
  useEffect(() => {
    setRefused(false);
    if (!runs || !seen) return;
    const left = new AbortController();
    const dirs = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = () => {
      timer = undefined;
      for (const dir of dirs) void cache.invalidateQueries({ queryKey: ["files", id, dir] });
      dirs.clear();
    };
    const note = (path: string | undefined) => {
      if (path === undefined || isTemporary(path)) return;
      dirs.add(parent(join(top, path)));
      timer ??= setTimeout(read, gatherMs);
    };
    const follow = async () => {
      while (!left.signal.aborted) {
        try {
          for await (const { type, path, from } of (await client.getSession(id)).watch(top, { recursive: true, signal: left.signal })) {
            // What was changed before is not told: the directories may have been read even earlier.
            if (type === "overflow" || type === "ready") void cache.invalidateQueries({ queryKey: ["files", id] });
            note(path);
            note(from);
          }
        } catch (err) {
          if (left.signal.aborted) return;
          // There are more directories than can be watched, or none. Where there are too many watches, others end in time.
          if (err instanceof APIError && err.status < 500 && err.status !== 429) return setRefused(true);
        }
        await pause(againMs, left.signal);
      }
    };
    void follow();
    return () => {
      left.abort();
      clearTimeout(timer);
    };
  }, [cache, id, top, runs, seen, attempt]);
  return { refused, again: () => setAttempt((before) => before + 1) };
}
