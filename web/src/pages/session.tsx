import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { SessionInfo } from "@sandkasten/sdk";
import { Suspense } from "react";
import { changeSessions, failures, isOver, verbsOf } from "../api/acts.js";
import { client } from "../api/client.js";
import { keys } from "../api/live.js";
import { useOwn, useWriter } from "../api/me.js";
import { open } from "../overlays/open.js";
import { tabKey, tabs } from "../router.js";
import { Button } from "../ui/button.js";
import { Copy } from "../ui/copy.js";
import { singleKeys, useShortcuts } from "../ui/keys.js";
import { Boundary, late } from "../ui/late.js";
import { ErrorNote, Skeleton } from "../ui/notes.js";
import { Status } from "../ui/status.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";
import { Commands } from "./commands.js";
import { FilesTab } from "./files.js";

const TerminalTab = late(() => import("./terminal.js").then((tab) => tab.default));
const ProcessesTab = late(() => import("./session/processes.js").then((tab) => tab.default));
const PortsTab = late(() => import("./session/ports.js").then((tab) => tab.default));
const NetworkTab = late(() => import("./session/network.js").then((tab) => tab.default));
const SnapshotsTab = late(() => import("./session/snapshots.js").then((tab) => tab.default));
const ChartsTab = late(() => import("./session/charts.js").then((tab) => tab.default));
const NotebookTab = late(() => import("./session/notebook.js").then((tab) => tab.default));
const LimitsTab = late(() => import("./session/limits.js").then((tab) => tab.default));
const route = getRouteApi("/sessions/$id");

/** How often is asked when a session expires, which moves with what it does: that is no event. */
const activityMs = 5000;

export function SessionPage() {
  const { id } = route.useParams();
  const { tab: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const writer = useWriter();
  const withKeys = singleKeys.use();
  useShortcuts(Object.fromEntries(tabs.map((name, index) => [tabKey(index), () => void navigate({ search: { tab: name } })])));
  const { data, error, isPending } = useQuery({ queryKey: keys.session(id), queryFn: async () => (await client.getSession(id)).info, refetchInterval: asked === "limits" ? activityMs : false });
  const own = useOwn();
  // To look into what another has is a right, and its owner is told: no page does so by itself.
  const tab = asked ?? (data && !own(data) ? "about" : "terminal");
  if (isPending) return <Skeleton />;
  if (!data) {
    return (
      <div className="flex flex-col gap-3 p-4">
        <ErrorNote error={error ?? "there is no such session"} />
        <Link to="/" className="text-accent">
          All sessions
        </Link>
      </div>
    );
  }
  const alive = data.status === "running";
  return (
    <div className="flex h-full flex-col">
      <Head session={data} error={error} />
      <div role="tablist" aria-label="Session" className="flex shrink-0 flex-wrap border-b border-line px-2 sm:gap-1 sm:px-4">
        {tabs.map((name, index) => (
          <Link key={name} role="tab" title={withKeys ? `Key: ${tabKey(index)}` : undefined} aria-selected={name === tab} to="/sessions/$id" params={{ id }} search={{ tab: name }} className={`border-b-2 px-1.5 py-2 capitalize sm:px-3 ${name === tab ? "border-accent text-text" : "border-transparent text-muted"}`}>
            {name}
          </Link>
        ))}
      </div>
      {/* What one session's tab holds is not for the next one. */}
      <div key={data.id} className="min-h-0 flex-1">
        <Boundary key={tab}>
          <Suspense fallback={<Skeleton />}>
            {tab === "terminal" && (alive && writer ? <TerminalTab id={data.id} key={data.bootId} /> : <NoTerminal session={data} writer={writer} />)}
            {tab === "commands" && <Commands id={data.id} alive={alive} />}
            {tab === "processes" && <ProcessesTab id={data.id} status={data.status} />}
            {tab === "ports" && <PortsTab id={data.id} status={data.status} />}
            {tab === "network" && <NetworkTab session={data} />}
            {tab === "snapshots" && <SnapshotsTab session={data} />}
            {tab === "charts" && <ChartsTab session={data} />}
            {tab === "limits" && <LimitsTab session={data} />}
            {tab === "files" && <FilesTab id={data.id} runs={data.status === "running"} />}
            {tab === "notebook" && (alive && writer ? <NotebookTab id={data.id} /> : <NoNotebook session={data} writer={writer} />)}
            {tab === "about" && <About session={data} />}
          </Suspense>
        </Boundary>
      </div>
    </div>
  );
}

function NoTerminal({ session, writer }: { session: SessionInfo; writer: boolean }) {
  return <p className="p-4 text-muted">{writer ? `The session is ${session.status}. A terminal needs it running.` : "A terminal runs programs, and your key only reads."}</p>;
}

function NoNotebook({ session, writer }: { session: SessionInfo; writer: boolean }) {
  return <p className="p-4 text-muted">{writer ? `The session is ${session.status}. A notebook needs it running.` : "A notebook runs code, and your key only reads."}</p>;
}

/** The session and what can be done with it. What went wrong is a note: a text may be edited on the page, which stays. */
function Head({ session, error }: { session: SessionInfo; error: unknown }) {
  const writer = useWriter();
  const own = useOwn();
  const problem = failures.use().get(session.id);
  return (
    <div className="flex flex-col gap-2 px-4 py-3">
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-lg font-semibold">
          <Text of={session.name ?? session.id.slice(0, 8)} />
        </h1>
        <Status of={session.status} />
        <Copy text={session.id} />
        <span className="text-muted">
          <Text of={session.image} />, <Ago at={session.createdAt} />
        </span>
        {writer && (
          <div className="ml-auto flex gap-2">
            {verbsOf(session).filter((verb) => verb === "stop" || own(session)).map((verb) => (
              <Button key={verb} className="capitalize" onClick={() => void changeSessions(verb, [session])}>
                {verb}
              </Button>
            ))}
            {!isOver(session) && (
              <Button kind="bad" onClick={() => open({ kind: "delete", sessions: [session] })}>
                Delete
              </Button>
            )}
          </div>
        )}
      </div>
      {!own(session) && (
        <p className="text-warn">
          This session is <Text of={session.owner ?? ""} />&apos;s. You may stop and delete it. To look into its files, commands or terminals is a right of its own, and its owner is told.
        </p>
      )}
      {isOver(session) && (
        <p className="text-muted">
          This session is over{session.endReason && <>: <Text of={session.endReason} /></>}. Its snapshots and its workspace are kept.
        </p>
      )}
      {session.status === "stopped" && (
        <p className="text-muted">
          It is stopped: <Text of={session.endReason ?? ""} />. Its files are kept until {new Date(session.expiresAt).toLocaleString()}.
        </p>
      )}
      <ErrorNote error={error} />
      <ErrorNote error={problem} />
    </div>
  );
}

/** flat gives the fields of a value with their names, those of what is inside it behind its own. What a user named stays as it is. */
function flat(value: object, before = ""): [string, string][] {
  return Object.entries(value).flatMap(([name, one]: [string, unknown]): [string, string][] => {
    const called = `${before}${before.startsWith("labels") ? name : name.replace(/[A-Z]/g, (c) => ` ${c.toLowerCase()}`)}`;
    if (one === undefined || one === "") return [];
    if (Array.isArray(one)) return [[called, one.map((part) => (typeof part === "object" ? JSON.stringify(part) : String(part))).join(", ")]];
    return typeof one === "object" && one !== null ? flat(one, `${called} `) : [[called, String(one)]];
  });
}

function About({ session }: { session: SessionInfo }) {
  const rows = flat(session);
  return (
    <dl className="grid h-full grid-cols-[minmax(120px,200px)_1fr] content-start items-baseline gap-x-4 gap-y-1 overflow-auto p-4">
      {rows.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="break-words text-muted">{plain(name)}</dt>
          <dd className="font-mono text-xs break-all">{plain(value)}</dd>
        </div>
      ))}
    </dl>
  );
}
