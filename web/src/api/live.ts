/** What the events say of what the page has. */
import { hashKey, useQueryClient, type QueryClient, type QueryKey } from "@tanstack/react-query";
import type { ExecRecord, NetworkEvent, PoolStatus, SandboxEvent, SessionInfo, Snapshot } from "@sandkasten/sdk";
import { useEffect, useState } from "react";
import { notify } from "../ui/notice.js";
import { settled } from "./acts.js";
import { client } from "./client.js";
import { follow } from "./stream.js";

export const keys = {
  sessions: ["sessions"] as const,
  ended: ["ended sessions"] as const,
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

const over = new Set<SessionInfo["status"]>(["destroyed", "expired", "failed", "crashed"]);

/** withOne is a list of sessions after something was said of one. */
function withOne(all: SessionInfo[], session: SessionInfo): SessionInfo[] {
  const others = all.filter((one) => one.id !== session.id);
  if (over.has(session.status)) return others;
  return others.length === all.length ? [...all, session] : all.map((one) => (one.id === session.id ? session : one));
}

export const listSessions = async (): Promise<SessionInfo[]> => (await client.listSessions()).flatMap((session) => session.info ?? []);

/** listEnded has the sessions that are over, as long as the daemon knows them. */
export const listEnded = async (): Promise<SessionInfo[]> => (await client.listSessions({ includeEnded: true, status: [...over] })).flatMap((session) => session.info ?? []);

type Change = (all: unknown) => unknown;

// What was said while a list was on its way, which may be older, by the list.
const meanwhile = new Map<string, Change[]>();

/** amend changes what the page has of a list, and what is on its way as well, as soon as that is there. */
function amend<T>(cache: QueryClient, queryKey: QueryKey, change: (all: T) => T): void {
  cache.setQueryData<T>(queryKey, (all) => all && change(all));
  if (cache.getQueryState(queryKey)?.fetchStatus !== "fetching") return;
  const name = hashKey(queryKey);
  meanwhile.set(name, [...(meanwhile.get(name) ?? []), change as Change]);
}

/** amendLists changes the lists that arrive by what was said meanwhile, until what it gives is called. */
function amendLists(cache: QueryClient): () => void {
  const unsubscribe = cache.getQueryCache().subscribe((told) => {
    if (told.type !== "updated" || (told.action.type === "success" ? told.action.manual : told.action.type !== "error")) return;
    const changes = meanwhile.get(told.query.queryHash);
    if (!changes || !meanwhile.delete(told.query.queryHash) || told.action.type === "error") return;
    cache.setQueryData(told.query.queryKey, (all: unknown) => all && changes.reduce<unknown>((now, change) => change(now), all));
  });
  return () => {
    unsubscribe();
    meanwhile.clear();
  };
}

/** readAgain has all that is shown read again, but for who has signed in: that does not change without a word. */
const readAgain = (cache: QueryClient) => void cache.invalidateQueries({ predicate: (query) => query.queryKey[0] !== "sign-in" });

/** endedByItself says of a session on the page that it has failed or crashed, which nobody has asked for. */
function endedByItself(cache: QueryClient, type: string, session: SessionInfo): void {
  if (type !== "session.ended" || (session.status !== "failed" && session.status !== "crashed")) return;
  const queries = cache.getQueryCache();
  const inTable = queries.find({ queryKey: keys.sessions })?.isActive() && cache.getQueryData<SessionInfo[]>(keys.sessions)?.some(({ id }) => id === session.id);
  if (!inTable && !queries.find({ queryKey: keys.session(session.id) })?.isActive()) return;
  notify({ text: `${session.name ?? session.id.slice(0, 8)} has ${session.status}`, problems: session.endReason ? [session.endReason] : [], session: session.id });
}

/** take puts what an event says where the page has it. */
function take(cache: QueryClient, event: SandboxEvent): void {
  if (event.type === "gap" || event.type === "ready") {
    meanwhile.clear();
    readAgain(cache);
    return;
  }
  const { session, sessionId } = event;
  if (session) {
    endedByItself(cache, event.type, session);
    settled(session.id);
    amend<SessionInfo[]>(cache, keys.sessions, (all) => withOne(all, session));
    const one = keys.session(session.id);
    cache.setQueryData(one, session);
    if (cache.getQueryState(one)?.fetchStatus === "fetching") void cache.invalidateQueries({ queryKey: one });
    if (over.has(session.status)) {
      void cache.invalidateQueries({ queryKey: ["family"] });
      void cache.invalidateQueries({ queryKey: keys.ended });
    }
  }
  const { exec, network, snapshot, pool, deletedId } = event;
  if (pool) cache.setQueryData<PoolStatus>(keys.pool, pool);
  if (sessionId && exec) amend<ExecRecord[]>(cache, keys.execs(sessionId), (all) => mergeExecs(all, [exec]));
  if (sessionId && event.type === "exec.burst") void cache.invalidateQueries({ queryKey: keys.execs(sessionId) });
  if (sessionId && network) amend<NetworkEvent[]>(cache, keys.network(sessionId), (all) => mergeDecisions(all, [network]));
  if (sessionId && event.type === "network.burst") void cache.invalidateQueries({ queryKey: keys.network(sessionId) });
  if (snapshot) void cache.invalidateQueries({ queryKey: keys.snapshots(snapshot.sessionId) });
  if (event.type === "snapshot.deleted") {
    cache.setQueriesData<Snapshot[]>({ queryKey: ["snapshots"] }, (all) => (Array.isArray(all) ? all.filter((one) => one.id !== deletedId) : all));
  }
  if (event.type.startsWith("snapshot.")) void cache.invalidateQueries({ queryKey: keys.allSnapshots, exact: true });
  if (event.type.startsWith("workspace.")) void cache.invalidateQueries({ queryKey: keys.workspaces });
  if (event.type === "image.job") void cache.invalidateQueries({ queryKey: keys.images });
}

/** useLive follows the events for as long as somebody is signed in, and reports whether the daemon is away. */
export function useLive(identity: string | undefined): boolean {
  const cache = useQueryClient();
  const [away, setAway] = useState(false);
  useEffect(() => {
    if (identity === undefined) return;
    const leaveLists = amendLists(cache);
    const leaveEvents = follow(`sandkasten events of ${identity}`, (event) => take(cache, event), setAway);
    return () => {
      leaveEvents();
      leaveLists();
      setAway(false);
    };
  }, [cache, identity]);
  return away;
}
