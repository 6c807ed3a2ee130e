import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { SessionInfo } from "@sandkasten/sdk";
import { useLayoutEffect, useMemo, useRef, useState } from "react";
import { changeSessions, failures, isOver, verbsOf, type Verb } from "../api/acts.js";
import { client } from "../api/client.js";
import { keys, listEnded, listSessions } from "../api/live.js";
import { useOwn, useWriter } from "../api/me.js";
import { useUsage, type Use } from "../api/usage.js";
import { open } from "../overlays/open.js";
import { Button } from "../ui/button.js";
import { Choice, Search } from "../ui/field.js";
import { useHint } from "../ui/keys.js";
import { EmptyState, ErrorNote, Skeleton } from "../ui/notes.js";
import { Status } from "../ui/status.js";
import { bytes } from "../ui/table.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";
import { useWide } from "../ui/wide.js";
import { Copy } from "../ui/copy.js";

const route = getRouteApi("/");
/** On a narrow screen a row has a second line, for what has no column. */
const rowHeight = 36;
const tallRowHeight = 56;
const columns =
  "grid-cols-[28px_minmax(0,2fr)_92px_minmax(0,1fr)_44px] md:grid-cols-[32px_minmax(200px,2fr)_96px_minmax(90px,1fr)_72px_minmax(0,1fr)_64px_64px_72px_150px_80px] xl:grid-cols-[32px_minmax(200px,2fr)_104px_minmax(100px,1fr)_72px_80px_minmax(90px,1fr)_64px_64px_80px_160px_90px]";

const statuses = ["all", "running", "paused", "stopped", "creating", "starting", "stopping", "ended"] as const;

export function matches(session: SessionInfo, words: string): boolean {
  const text = [session.id, session.name, session.image, session.owner, ...Object.entries(session.labels ?? {}).map(([name, value]) => `${name}=${value}`)]
    .join(" ")
    .toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

const verbs: readonly Verb[] = ["start", "resume", "pause", "stop"];

export function SessionsPage() {
  const { q = "", status = "all", owner = "all" } = route.useSearch();
  const navigate = route.useNavigate();
  const ended = status === "ended";
  const { data, error, isPending } = useQuery<SessionInfo[]>({ queryKey: ended ? keys.ended : keys.sessions, queryFn: ended ? listEnded : listSessions });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const writer = useWriter();
  const own = useOwn();
  const owners = useMemo(() => [...new Set((data ?? []).flatMap((one) => one.owner || []))].sort(), [data]);
  const newHint = useHint("n");

  const shown = useMemo(
    () => (data ?? []).filter((one) => (status === "all" || ended || one.status === status) && (owner === "all" || one.owner === owner) && matches(one, q)).sort((a, b) => b.createdAt.localeCompare(a.createdAt)),
    [data, q, status, ended, owner],
  );
  const picked = shown.filter((one) => chosen.has(one.id) && !isOver(one));
  const run = async (verb: Verb, sessions: SessionInfo[]) => {
    const failed = await changeSessions(verb, sessions);
    const done = new Set(sessions.flatMap(({ id }) => (failed.has(id) ? [] : [id])));
    setChosen((now) => new Set([...now].filter((id) => !done.has(id)))); // others may have been chosen meanwhile
  };

  return (
    <div className="flex h-full flex-col">
      <div className="flex flex-wrap items-center gap-2 px-4 py-3">
        <h1 className="mr-2 text-lg font-semibold">Sessions</h1>
        <Search label="Search by id, name, image, owner or label" placeholder="id, name, image, owner, label" value={q} onChange={(e) => navigate({ search: (old) => ({ ...old, q: e.target.value || undefined }), replace: true })} />
        <div className="w-32">
          <Choice aria-label="Status" label="" options={statuses} value={status} onChange={(e) => navigate({ search: (old) => ({ ...old, status: e.target.value === "all" ? undefined : e.target.value }), replace: true })} />
        </div>
        {(owners.length > 1 || owner !== "all") && (
          <div className="w-40">
            <Choice aria-label="Owner" label="" options={["all", ...new Set([...owners, ...(owner === "all" ? [] : [owner])])]} value={owner} onChange={(e) => navigate({ search: (old) => ({ ...old, owner: e.target.value === "all" ? undefined : e.target.value }), replace: true })} />
          </div>
        )}
        <span className="text-muted">
          {shown.length} of {data?.length ?? 0}
        </span>
        {writer && (
          <div className="ml-auto flex flex-wrap gap-2">
            {verbs.map((verb) => {
              const fitting = picked.filter((one) => verbsOf(one).includes(verb) && (verb === "stop" || own(one)));
              return (
                fitting.length > 0 && (
                  <Button key={verb} className="capitalize" onClick={() => void run(verb, fitting)}>
                    {verb} {fitting.length}
                  </Button>
                )
              );
            })}
            {picked.length > 0 && (
              <Button kind="bad" onClick={() => open({ kind: "delete", sessions: picked })}>
                Delete {picked.length}
              </Button>
            )}
            <Button kind="main" onClick={() => open({ kind: "create" })} {...newHint}>
              New session
            </Button>
          </div>
        )}
      </div>
      <LookedInto />
      {error && (
        <div className="px-4 pb-2">
          <ErrorNote error={error} />
        </div>
      )}
      {isPending ? (
        <Skeleton />
      ) : data?.length === 0 && ended ? (
        <EmptyState title="None has ended">Sessions that were deleted, have expired, failed or crashed are listed here for a while.</EmptyState>
      ) : data?.length === 0 ? (
        <EmptyState title="No sessions">
          <p className="mb-3">A session is a Linux machine of its own. Make one here, or from a terminal:</p>
          <Copy text="sandkasten run base -- uname -a" />
        </EmptyState>
      ) : shown.length === 0 ? (
        <EmptyState title="Nothing matches">Try fewer words, or another status.</EmptyState>
      ) : (
        <Rows sessions={shown} chosen={chosen} onChoose={setChosen} />
      )}
    </div>
  );
}

/** How long it is told here that somebody looked into a session; the list of users and keys keeps it for longer. */
const toldMs = 7 * 24 * 3600 * 1000;

/** LookedInto tells who has looked into a session of one's own. */
function LookedInto() {
  const { data } = useQuery({ queryKey: ["inspections"], queryFn: () => client.listInspections() });
  const last = data?.find((one) => one.sessionId && Date.now() - Date.parse(one.lastAt) < toldMs);
  if (!last?.sessionId) return null;
  return (
    <p role="status" className="px-4 pb-2 text-warn">
      <Text of={last.by} /> has looked into your session{" "}
      <Link to="/sessions/$id" params={{ id: last.sessionId }} className="font-mono text-xs underline">
        {plain(last.sessionId.slice(0, 8))}
      </Link>
      , <Ago at={last.lastAt} /> ago.{" "}
      <Link to="/users" className="underline">
        All of these
      </Link>
    </p>
  );
}

/** What a session uses; a dash is not known. */
function Used({ cell, session, of }: { cell: string; session: SessionInfo; of: Use | undefined }) {
  const most = session.limits.memoryMb;
  const lives = session.status === "running" || session.status === "paused";
  return (
    <>
      <span role="cell" className={`hidden text-right md:block ${cell}`}>
        {of?.cpu === undefined || !lives ? "\u2013" : `${Math.round(of.cpu * 100)} %`}
      </span>
      <span role="cell" className={`hidden text-right md:block ${cell}`}>
        {of && lives ? bytes(of.memoryBytes) : "\u2013"}
        {most ? <span className="text-muted"> of {bytes(most * 2 ** 20)}</span> : null}
      </span>
      <span role="cell" className={`hidden text-right md:block ${cell}`}>
        {of ? bytes(of.diskBytes) : "\u2013"}
      </span>
    </>
  );
}

/** What a narrow screen has no columns for. */
function Details({ session, of, cell }: { session: SessionInfo; of: Use | undefined; cell: string }) {
  const lives = session.status === "running" || session.status === "paused";
  return (
    <span role="cell" className={`col-span-4 col-start-2 text-xs text-muted md:hidden ${cell}`}>
      {lives && (
        <>
          idle <Ago at={session.lastActivity} />, {of?.cpu !== undefined && `${Math.round(of.cpu * 100)} %, `}
          {of && `${bytes(of.memoryBytes)}, disk ${bytes(of.diskBytes)}, `}
        </>
      )}
      {isOver(session) && session.endReason && <><Text of={session.endReason} />, </>}
      {session.networkMode}
      {session.owner && (
        <>
          , <Text of={session.owner} />
        </>
      )}
    </span>
  );
}

function Rows({ sessions, chosen, onChoose }: { sessions: SessionInfo[]; chosen: ReadonlySet<string>; onChoose: (ids: ReadonlySet<string>) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const height = useWide() ? rowHeight : tallRowHeight;
  const rows = useVirtualizer({ count: sessions.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 12, getItemKey: (i) => sessions[i]?.id ?? i });
  useLayoutEffect(() => rows.measure(), [rows, height]);
  const usage = useUsage();
  const failed = failures.use();
  const choosable = sessions.filter((one) => !isOver(one));
  const all = choosable.length > 0 && choosable.every((one) => chosen.has(one.id));
  const toggle = (id: string) => {
    const next = new Set(chosen);
    if (!next.delete(id)) next.add(id);
    onChoose(next);
  };
  const cell = "truncate px-2";
  return (
    <div ref={box} role="table" aria-label="Sessions" aria-rowcount={sessions.length + 1} tabIndex={0} className="min-h-0 flex-1 overflow-auto border-t border-line">
      <div role="row" className={`sticky top-0 z-10 grid h-9 items-center border-b border-line bg-page px-2 text-xs text-muted ${columns}`}>
        <span role="columnheader">
          <input type="checkbox" className="align-middle" aria-label="Choose all" checked={all} disabled={choosable.length === 0} onChange={() => onChoose(all ? new Set() : new Set(choosable.map((one) => one.id)))} />
        </span>
        {["Session", "State", "Image"].map((name) => (
          <span key={name} role="columnheader" className="px-2">
            {name}
          </span>
        ))}
        <span role="columnheader" className="hidden px-2 xl:block">
          Driver
        </span>
        {["Network", "Owner"].map((name) => (
          <span key={name} role="columnheader" className="hidden px-2 md:block">
            {name}
          </span>
        ))}
        <span role="columnheader" className="px-2">
          Age
        </span>
        <span role="columnheader" className="hidden px-2 md:block">
          Idle
        </span>
        {["Processor", "Memory", "Disk"].map((name) => (
          <span key={name} role="columnheader" className="hidden px-2 text-right md:block">
            {name}
          </span>
        ))}
      </div>
      <div style={{ height: rows.getTotalSize() }} className="relative">
        {rows.getVirtualItems().map((item) => {
          const one = sessions[item.index];
          if (!one) return null;
          return (
            <div key={item.key} role="row" aria-rowindex={item.index + 2} style={{ transform: `translateY(${item.start}px)` }} className={`absolute inset-x-0 grid h-14 scroll-mt-9 md:h-9 items-center border-b -outline-offset-2 border-line px-2 hover:bg-sunk ${columns}`}>
              <span role="cell">
                <input type="checkbox" className="align-middle" aria-label={`Choose ${plain(one.name ?? one.id)}`} checked={chosen.has(one.id)} disabled={isOver(one)} onChange={() => toggle(one.id)} />
              </span>
              <span role="cell" className={cell}>
                <Link to="/sessions/$id" params={{ id: one.id }} className="font-mono text-xs text-accent hover:underline">
                  {one.name ? plain(one.name) : one.id}
                </Link>
                {isOver(one) && one.endReason && (
                  <span className="ml-2 hidden text-xs text-muted md:inline" title={plain(one.endReason)}>
                    {plain(one.endReason)}
                  </span>
                )}
                {failed.has(one.id) && (
                  <span className="ml-2 text-xs text-bad" title={plain(failed.get(one.id) ?? "")}>
                    {"\u2715"} {plain(failed.get(one.id) ?? "")}
                  </span>
                )}
              </span>
              <span role="cell" className={cell}>
                <Status of={one.status} />
              </span>
              <span role="cell" className={cell}>
                <Text of={one.image} />
              </span>
              <span role="cell" className={`hidden xl:block ${cell}`}>
                <Text of={one.driver} />
              </span>
              <span role="cell" className={`hidden md:block ${cell}`}>
                {one.networkMode}
              </span>
              <span role="cell" className={`hidden md:block ${cell}`}>
                <Text of={one.owner ?? ""} />
              </span>
              <span role="cell" className={cell}>
                <Ago at={one.createdAt} />
              </span>
              <span role="cell" className={`hidden md:block ${cell}`}>
                <Ago at={one.lastActivity} />
              </span>
              <Used cell={cell} session={one} of={usage.get(one.id)} />
              <Details cell={cell} session={one} of={usage.get(one.id)} />
            </div>
          );
        })}
      </div>
    </div>
  );
}
