/** How long a session lives, and how much it may use. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { SessionInfo } from "@sandkasten/sdk";
import { useState, type FormEvent } from "react";
import { client } from "../../api/client.js";
import { keys } from "../../api/live.js";
import { Act } from "../../ui/act.js";
import { Choice, Field } from "../../ui/field.js";
import { ErrorNote } from "../../ui/notes.js";

const expiries = ["stop", "destroy"] as const;
const idleActs = ["pause", "stop", "destroy"] as const;
const hour = 3600;
const times = ["ttlSeconds", "idleTimeoutSeconds", "lifetimeSeconds"] as const;
type Time = (typeof times)[number];

/** The form as the session has it. */
const wishOf = (session: SessionInfo) => ({
  ttlSeconds: String(session.ttlSeconds ?? ""),
  idleTimeoutSeconds: String(session.idleTimeoutSeconds ?? ""),
  lifetimeSeconds: String(session.lifetimeSeconds ?? ""),
  onExpiry: session.onExpiry ?? "destroy",
  onIdle: session.onIdle ?? "destroy",
  autoResume: session.autoResume,
});
type Wish = ReturnType<typeof wishOf>;

export default function LimitsTab({ session }: { session: SessionInfo }) {
  const { id, limits } = session;
  const cache = useQueryClient();
  const running = session.status === "running" || session.status === "paused";
  const stats = useQuery({ queryKey: ["stats", id], enabled: running, refetchInterval: 5000, queryFn: async () => (await client.getSession(id)).stats() });
  // What the user has changed in the form. The rest is as the session has it, which others may change meanwhile.
  const [touched, setTouched] = useState<Partial<Wish>>({});
  const live = wishOf(session);
  const wish = { ...live, ...touched };
  const touch = (change: Partial<Wish>) => {
    setSaved(false);
    setTouched((before) => ({ ...before, ...change }));
  };
  const changed = (Object.keys(live) as (keyof Wish)[]).some((name) => wish[name] !== live[name]);
  const [problem, setProblem] = useState<unknown>();
  const [saved, setSaved] = useState(false);
  /** change has the session be otherwise. The form keeps what the user types meanwhile, and forgets what this has done. */
  const change = async (body: Parameters<Awaited<ReturnType<typeof client.getSession>>["update"]>[0], done: Partial<Wish>) => {
    setProblem(undefined);
    setSaved(false);
    try {
      const now = await (await client.getSession(id)).update(body);
      cache.setQueryData(keys.session(id), now);
      setTouched((before) => Object.fromEntries(Object.entries(before).filter(([name, value]) => done[name as keyof Wish] !== value)));
      setSaved(true);
    } catch (err) {
      setProblem(err);
    }
  };
  // Only what the user has changed is sent.
  const save = (event: FormEvent) => {
    event.preventDefault();
    const number = (name: Time) => (wish[name] !== "" && wish[name] !== live[name] ? Number(wish[name]) : undefined);
    void change(
      {
        ttlSeconds: number("ttlSeconds"),
        idleTimeoutSeconds: number("idleTimeoutSeconds"),
        lifetimeSeconds: number("lifetimeSeconds"),
        onExpiry: wish.onExpiry === live.onExpiry ? undefined : wish.onExpiry,
        onIdle: wish.onIdle === live.onIdle ? undefined : wish.onIdle,
        autoResume: wish.autoResume === live.autoResume ? undefined : wish.autoResume,
      },
      touched,
    );
  };
  // The API has no word for "no time any more".
  const emptied = (name: Time) => wish[name] === "" && live[name] !== "";
  const wrong = times.some(emptied);
  const seconds = (name: Time) => ({ type: "number", min: 1, value: wish[name], problem: emptied(name) ? `A time that is set can be changed, and not taken away. It is ${live[name]} now.` : undefined, onChange: (event: { target: { value: string } }) => touch({ [name]: event.target.value }) });
  const used = stats.data;
  const rows: [string, string, string][] = [
    ["Processors", limits.cpu ? `${limits.cpu}` : "the default", used ? `${(used.cpuUsageUsec / 1e6).toFixed(1)} s used` : ""],
    ["Memory", limits.memoryMb ? `${limits.memoryMb} MiB` : "the default", used ? `${mebibytes(used.memoryBytes)} now, ${mebibytes(used.memoryPeak)} at most` : ""],
    ["Disk", limits.diskMb ? `${limits.diskMb} MiB` : "the default", used ? `${mebibytes(used.diskBytes)} now` : ""],
    ["Processes", limits.pids ? `${limits.pids}` : "the default", used ? `${used.pids} now` : ""],
  ];
  return (
    <div tabIndex={0} role="region" aria-label="Limits" className="flex h-full flex-col gap-5 overflow-auto p-4">
      <ErrorNote error={problem ?? stats.error} />
      <form onSubmit={save} className="flex max-w-2xl flex-col gap-3">
        <h2 className="font-medium">Life</h2>
        {session.expiresAt && (
          <p className="flex flex-wrap items-center gap-2 text-muted">
            Without activity it {running && session.onExpiry === "stop" ? "is stopped" : "ends"} at {new Date(session.expiresAt).toLocaleString()}.
            <Act onClick={() => void change({ ttlSeconds: (session.ttlSeconds ?? 0) + hour }, { ttlSeconds: wish.ttlSeconds })}>Add an hour</Act>
          </p>
        )}
        <div className="grid gap-3 sm:grid-cols-2">
          <Field label="Expires after seconds without activity" {...seconds("ttlSeconds")} />
          <Choice label="When it expires" options={expiries} value={wish.onExpiry} onChange={(event) => touch({ onExpiry: event.target.value as (typeof expiries)[number] })} hint="Stopped, it keeps its files for a while. Its age destroys it in any case." />
          <Field label="Expires at an age of seconds" placeholder="no such age" {...seconds("lifetimeSeconds")} />
          <Field label="Idle after seconds" placeholder="as above" {...seconds("idleTimeoutSeconds")} />
          <Choice label="When it is idle" options={idleActs} value={wish.onIdle} onChange={(event) => touch({ onIdle: event.target.value as (typeof idleActs)[number] })} />
        </div>
        <label className="flex items-center gap-2">
          <input type="checkbox" checked={wish.autoResume} onChange={(event) => touch({ autoResume: event.target.checked })} />
          A request wakes it when it is paused
        </label>
        <div className="flex items-center gap-3">
          <Act kind="main" type="submit" disabled={!changed || wrong}>
            Save
          </Act>
          <span role="status">{saved && "Saved"}</span>
        </div>
      </form>
      <section className="max-w-2xl">
        <h2 className="mb-1 font-medium">Resources</h2>
        <dl className="border-t border-line">
          {rows.map(([name, limit, now]) => (
            <div key={name} className="grid grid-cols-3 gap-3 border-b border-line py-1">
              <dt className="text-muted">{name}</dt>
              <dd>{limit}</dd>
              <dd className="text-muted">{now}</dd>
            </div>
          ))}
        </dl>
        <p className="mt-2 text-muted">These are set when a session is made. A fork over the API may have others.</p>
      </section>
    </div>
  );
}

const mebibytes = (bytes: number) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
