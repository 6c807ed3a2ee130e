/** What a session may reach, and what its network decided. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { Network, NetworkEvent, SessionInfo } from "@sandkasten/sdk";
import { useMemo, useRef, useState, type FormEvent } from "react";
import { client } from "../../api/client.js";
import { keys, mergeDecisions } from "../../api/live.js";
import { Act } from "../../ui/act.js";
import { Button } from "../../ui/button.js";
import { Dialog, FormButtons } from "../../ui/dialog.js";
import { Choice, Field } from "../../ui/field.js";
import { EmptyState, ErrorNote, Skeleton } from "../../ui/notes.js";
import { Text, plain } from "../../ui/text.js";
import { Ago } from "../../ui/time.js";

const modes = ["none", "allow", "internet", "full"] as const;

export default function NetworkTab({ session }: { session: SessionInfo }) {
  const { id } = session;
  const cache = useQueryClient();
  const log = useQuery({
    queryKey: keys.network(id),
    queryFn: async () => mergeDecisions(cache.getQueryData<NetworkEvent[]>(keys.network(id)), (await (await client.getSession(id)).networkLog({ limit: 1000 })).events),
  });
  const [editing, setEditing] = useState(false);
  const [wanted, setWanted] = useState<NetworkEvent>();
  const [deniedOnly, setDeniedOnly] = useState(false);
  const shown = useMemo(() => (log.data ?? []).filter((one) => !deniedOnly || !one.allowed).reverse(), [log.data, deniedOnly]);
  // The event of the change comes too, but it may come late.
  const became = (network: Network) => cache.setQueryData<SessionInfo>(keys.session(id), (old) => old && { ...old, network, networkMode: network.mode });
  const { network } = session;
  return (
    <div className="flex h-full flex-col">
      <div className="flex flex-col gap-2 px-4 py-3">
        <Policy network={network} onEdit={() => setEditing(true)} />
        <label className="flex items-center gap-2">
          <input type="checkbox" checked={deniedOnly} onChange={(event) => setDeniedOnly(event.target.checked)} />
          Only what was refused
        </label>
        <ErrorNote error={log.error} />
      </div>
      {log.isPending ? (
        <Skeleton />
      ) : shown.length === 0 ? (
        <EmptyState title="No decisions">Each name, connection and request of the session is listed here, with the entry that allowed or refused it.</EmptyState>
      ) : (
        <Decisions events={shown} network={network} onAllow={setWanted} />
      )}
      {editing && <Edit id={id} network={network} onClose={() => setEditing(false)} onChange={became} />}
      {wanted && <Allow id={id} network={network} event={wanted} onClose={() => setWanted(undefined)} onChange={became} />}
    </div>
  );
}

function Policy({ network, onEdit }: { network: Network; onEdit: () => void }) {
  const limits = [
    network.maxMbit && `${network.maxMbit} Mbit/s`,
    network.maxMb && `${network.maxMb} MiB in all`,
    network.maxConnections && `${network.maxConnections} connections`,
    network.connectionsPerSecond && `${network.connectionsPerSecond} new ones a second`,
  ].filter(Boolean);
  const rows: [string, string[]][] = [
    ["Allow", network.allow ?? []],
    ["Deny", network.deny ?? []],
    ["Secrets", (network.secrets ?? []).map((one) => one.name)],
  ];
  return (
    <div className="flex items-start gap-3">
      <dl className="grid min-w-0 flex-1 grid-cols-[80px_1fr] gap-x-3 gap-y-1">
        <dt className="text-muted">Mode</dt>
        <dd>
          {network.mode}
          {limits.length > 0 && <span className="text-muted">, at most {limits.join(", ")}</span>}
        </dd>
        {rows.map(([name, entries]) =>
          entries.length === 0 ? null : (
            <div key={name} className="contents">
              <dt className="text-muted">{name}</dt>
              <dd className="flex flex-wrap gap-x-3 font-mono text-xs break-all">
                {entries.map((entry) => (
                  <Text key={entry} of={entry} />
                ))}
              </dd>
            </div>
          ),
        )}
      </dl>
      <Act onClick={onEdit}>Edit</Act>
    </div>
  );
}

function Decisions({ events, network, onAllow }: { events: NetworkEvent[]; network: Network; onAllow: (event: NetworkEvent) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const canAllow = network.mode === "none" || network.mode === "allow";
  const rows = useVirtualizer({ count: events.length, getScrollElement: () => box.current, estimateSize: () => 36, overscan: 12, getItemKey: (i) => events[i]?.seq ?? i });
  return (
    <div ref={box} tabIndex={0} role="region" aria-label="Decisions" className="min-h-0 flex-1 overflow-auto border-t border-line">
      <div role="list" style={{ height: rows.getTotalSize() }} className="relative">
        {rows.getVirtualItems().map((item) => {
          const one = events[item.index];
          if (!one) return null;
          const entry = canAllow ? one.entry : undefined;
          const host = `${one.name ?? one.address ?? "?"}${one.port ? `:${one.port}` : ""}`;
          return (
            <div key={item.key} role="listitem" aria-setsize={events.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }} className="absolute inset-x-0 grid h-9 grid-cols-[50px_70px_1fr_auto] items-center gap-3 border-b border-line px-4 sm:grid-cols-[60px_70px_80px_1fr_1fr_auto]">
              <span className="text-xs whitespace-nowrap text-muted">
                <Ago at={one.time} />
              </span>
              <span className={one.allowed ? "text-good" : "text-bad"}>{one.allowed ? "\u2713 allowed" : "\u2715 refused"}</span>
              <span className="hidden text-muted sm:block">{one.op}</span>
              <Text of={host} className="truncate font-mono text-xs" />
              <span className="hidden truncate text-muted sm:block">
                <Text of={one.why ?? ""} />
                {one.count > 1 && `, ${one.count} times`}
              </span>
              <span className="text-muted">
                {entry === undefined ? null : network.allow?.includes(entry) ? (
                  "In the list now"
                ) : (
                  <Act aria-label={`Allow ${plain(host)}`} onClick={() => onAllow(one)}>
                    Allow this
                  </Act>
                )}
              </span>
            </div>
          );
        })}
      </div>
    </div>
  );
}

type Change = { id: string; network: Network; onClose: () => void; onChange: (network: Network) => void };

function Allow({ id, network, event, onClose, onChange }: Change & { event: NetworkEvent }) {
  const entry = event.entry ?? "";
  const [error, setError] = useState<unknown>();
  const allow = async () => {
    try {
      onChange(await (await client.getSession(id)).allowNetwork([entry]));
      onClose();
    } catch (err) {
      setError(err);
    }
  };
  return (
    <Dialog open onClose={onClose} title="Allow this?" light>
      <div className="flex flex-col gap-3">
        <p>It was refused: {plain(event.why ?? "")}.</p>
        <ul className="rounded border border-line bg-sunk p-2 font-mono text-xs break-all">
          {network.mode === "none" && <li>mode: none {"\u2192"} allow</li>}
          <li className="text-good">
            + allow: <Text of={entry} />
          </li>
        </ul>
        <p className="text-muted">It holds at once, for this session only. An entry of deny, and what the key may allow at most, still come first.</p>
        <ErrorNote error={error} />
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="main" onClick={() => void allow()}>
            Allow
          </Button>
        </div>
      </div>
    </Dialog>
  );
}

const entries = (text: string) => text.split(/[\s,]+/).filter(Boolean);
const box = "w-full rounded border border-line bg-raised p-2 font-mono text-xs";

function Edit({ id, network, onClose, onChange }: Change) {
  const [mode, setMode] = useState<string>(network.mode);
  const [allow, setAllow] = useState((network.allow ?? []).join("\n"));
  const [deny, setDeny] = useState((network.deny ?? []).join("\n"));
  const [limits, setLimits] = useState({ maxMbit: network.maxMbit ?? 0, maxMb: network.maxMb ?? 0, maxConnections: network.maxConnections ?? 0, connectionsPerSecond: network.connectionsPerSecond ?? 0 });
  const [error, setError] = useState<unknown>();
  const save = async (event: FormEvent) => {
    event.preventDefault();
    setError(undefined);
    try {
      // Secrets that are left out stay.
      const wish = { mode: mode as Network["mode"], deny: entries(deny), ...(mode === "allow" && { allow: entries(allow) }), ...limits };
      onChange(await (await client.getSession(id)).setNetwork(wish));
      onClose();
    } catch (err) {
      setError(err);
    }
  };
  const limit = (name: keyof typeof limits) => ({ type: "number", min: 0, value: limits[name], onChange: (event: { target: { value: string } }) => setLimits({ ...limits, [name]: Number(event.target.value) }) });
  return (
    <Dialog open onClose={onClose} title="What the session may reach" wide>
      <form onSubmit={save} className="flex flex-col gap-3">
        <Choice label="Mode" options={modes} value={mode} onChange={(event) => setMode(event.target.value)} hint="allow: only what the list names. internet: all public addresses. full: private ones too, where the operator permits it." />
        <div className="grid gap-3 sm:grid-cols-2">
          {mode === "allow" && (
            <label className="flex flex-col gap-1 text-xs text-muted">
              Allow, one entry a line
              <textarea rows={6} value={allow} onChange={(event) => setAllow(event.target.value)} spellCheck={false} placeholder={"@pip\napi.example.org\ndb.example.org:5432"} className={`${box} text-text`} />
            </label>
          )}
          <label className="flex flex-col gap-1 text-xs text-muted">
            Deny, one entry a line
            <textarea rows={6} value={deny} onChange={(event) => setDeny(event.target.value)} spellCheck={false} className={`${box} text-text`} />
          </label>
        </div>
        <div className="grid gap-3 sm:grid-cols-4">
          <Field label="Mbit/s; 0 is any" {...limit("maxMbit")} />
          <Field label="MiB in all; 0 is any" {...limit("maxMb")} />
          <Field label="Connections; 0 is 256" {...limit("maxConnections")} />
          <Field label="New a second; 0 is 100" {...limit("connectionsPerSecond")} />
        </div>
        <p className="text-muted">It holds at once: connections that are not allowed any more are cut. Secrets stay as they are.</p>
        <ErrorNote error={error} />
        <FormButtons onClose={onClose} verb="Save" />
      </form>
    </Dialog>
  );
}
