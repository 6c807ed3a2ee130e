/** The one stream of events, which says what of the page is out of date. */
import { useQueryClient, type QueryClient } from "@tanstack/react-query";
import type { ExecRecord, NetworkEvent, PoolStatus, SandboxEvent, SessionInfo, Snapshot } from "@sandkasten/sdk";
import { useEffect, useState } from "react";
import { client } from "./client.js";

export const keys = {
  sessions: ["sessions"] as const,
  session: (id: string) => ["session", id] as const,
  execs: (id: string) => ["execs", id] as const,
  network: (id: string) => ["network", id] as const,
  snapshots: (id: string) => ["snapshots", id] as const,
  images: ["images"] as const,
  allSnapshots: ["snapshots"] as const,
  workspaces: ["workspaces"] as const,
  imageJobs: ["images", "jobs"] as const,
  pool: ["pool"] as const,
};

/** How many commands and decisions of one session the page keeps. */
const maxKept = 5000;

/** mergeExecs adds newer records to those that the page has seen: the daemon keeps the last ones only. */
export function mergeExecs(before: ExecRecord[] = [], newer: ExecRecord[]): ExecRecord[] {
  const all = new Map(before.map((one) => [one.execId, one]));
  for (const one of newer) {
    if (all.get(one.execId)?.state !== "ended" || one.state === "ended") all.set(one.execId, one);
  }
  return [...all.values()].slice(-maxKept);
}

/**
 * mergeDecisions adds newer decisions. A refusal that happens again is the same one with a higher number: each time its number
 * and its count grow by one, so that its count tells which numbers it had.
 */
export function mergeDecisions(before: NetworkEvent[] = [], newer: NetworkEvent[]): NetworkEvent[] {
  const all = new Map(before.map((one) => [one.seq, one]));
  for (const one of newer) all.set(one.seq, one);
  const sorted = [...all.values()].sort((a, b) => a.seq - b.seq);
  const repeated = (one: NetworkEvent, next: NetworkEvent | undefined) => next !== undefined && next.seq - next.count < one.seq;
  return sorted.filter((one, at) => !repeated(one, sorted[at + 1])).slice(-maxKept);
}

const over = new Set(["destroyed", "expired", "failed", "crashed"]);

/** withOne is a list of sessions after something was said of one. */
function withOne(all: SessionInfo[], session: SessionInfo): SessionInfo[] {
  const others = all.filter((one) => one.id !== session.id);
  if (over.has(session.status)) return others;
  return others.length === all.length ? [...all, session] : all.map((one) => (one.id === session.id ? session : one));
}

// What was said while a list was on its way, which may be older.
let underWay = 0;
const meanwhile = new Map<string, SessionInfo>();

/** listSessions has what events have said since it was called. */
export async function listSessions(): Promise<SessionInfo[]> {
  underWay++;
  try {
    const all = (await client.listSessions()).flatMap((session) => session.info ?? []);
    return [...meanwhile.values()].reduce(withOne, all);
  } finally {
    if (--underWay === 0) meanwhile.clear();
  }
}

/** readAgain has all that is shown read again, but for who has signed in: that does not change without a word. */
const readAgain = (cache: QueryClient) => void cache.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "sign-in" });

/** take puts what an event says where the page has it. */
function take(cache: QueryClient, event: SandboxEvent): void {
  if (event.type === "gap") {
    readAgain(cache);
    return;
  }
  const { session, sessionId } = event;
  if (session) {
    if (underWay > 0) meanwhile.set(session.id, session);
    cache.setQueryData<SessionInfo[]>(keys.sessions, (all) => all && withOne(all, session));
    const one = keys.session(session.id);
    cache.setQueryData(one, session);
    if (cache.getQueryState(one)?.fetchStatus === "fetching") void cache.invalidateQueries({ queryKey: one });
    if (over.has(session.status)) void cache.invalidateQueries({ queryKey: ["family"] });
  }
  const { exec, network, snapshot, pool, deletedId } = event;
  if (pool) cache.setQueryData<PoolStatus>(keys.pool, pool);
  if (sessionId && exec) cache.setQueryData<ExecRecord[]>(keys.execs(sessionId), (all) => all && mergeExecs(all, [exec]));
  if (sessionId && event.type === "exec.burst") void cache.invalidateQueries({ queryKey: keys.execs(sessionId) });
  if (sessionId && network) cache.setQueryData<NetworkEvent[]>(keys.network(sessionId), (all) => all && mergeDecisions(all, [network]));
  if (sessionId && event.type === "network.burst") void cache.invalidateQueries({ queryKey: keys.network(sessionId) });
  if (snapshot) void cache.invalidateQueries({ queryKey: keys.snapshots(snapshot.sessionId) });
  if (event.type === "snapshot.deleted") {
    cache.setQueriesData<Snapshot[]>({ queryKey: ["snapshots"] }, (all) => (Array.isArray(all) ? all.filter((one) => one.id !== deletedId) : all));
  }
  if (event.type.startsWith("snapshot.")) void cache.invalidateQueries({ queryKey: keys.allSnapshots, exact: true });
  if (event.type.startsWith("workspace.")) void cache.invalidateQueries({ queryKey: keys.workspaces });
  if (event.type === "image.job") void cache.invalidateQueries({ queryKey: keys.images });
}

const pauseMs = 2000;

/** useLive follows the events for as long as the page is there, and reports whether the daemon is away. */
export function useLive(): boolean {
  const cache = useQueryClient();
  const [away, setAway] = useState(false);
  useEffect(() => {
    const ending = new AbortController();
    void (async () => {
      while (!ending.signal.aborted) {
        try {
          for await (const event of client.events({ signal: ending.signal })) {
            setAway(false);
            if (event.type === "ready") readAgain(cache);
            else take(cache, event);
          }
        } catch {
          if (ending.signal.aborted) return;
          setAway(true);
        }
        await new Promise((go) => setTimeout(go, pauseMs));
      }
    })();
    return () => ending.abort();
  }, [cache]);
  return away;
}
