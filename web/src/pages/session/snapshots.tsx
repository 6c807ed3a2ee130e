/** What was saved of a session, and the sessions that began with its files. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import type { SessionInfo, Snapshot } from "@sandkasten/sdk";
import { useState, type FormEvent, type ReactNode } from "react";
import { isOver } from "../../api/acts.js";
import { client } from "../../api/client.js";
import { byHand } from "../../api/expiry.js";
import { keys, listSessions } from "../../api/live.js";
import { Act } from "../../ui/act.js";
import { Dialog, FormButtons } from "../../ui/dialog.js";
import { Choice, Field } from "../../ui/field.js";
import { ErrorNote, Skeleton } from "../../ui/notes.js";
import { notify } from "../../ui/notice.js";
import { Status } from "../../ui/status.js";
import { Text, plain } from "../../ui/text.js";
import { Ago } from "../../ui/time.js";

type Asking = "save" | "fork" | { restore: Snapshot } | { remove: Snapshot };

export default function SnapshotsTab({ session }: { session: SessionInfo }) {
  const { id } = session;
  const { data, error, isPending, refetch } = useQuery({ queryKey: keys.snapshots(id), queryFn: () => client.listSnapshots({ sessionId: id }) });
  const [asking, setAsking] = useState<Asking>();
  const close = () => {
    setAsking(undefined);
    void refetch();
  };
  const over = isOver(session);
  return (
    <div tabIndex={0} role="region" aria-label="Snapshots and forks" className="flex h-full flex-col gap-4 overflow-auto p-4">
      <ErrorNote error={error} />
      <section>
        <div className="mb-1 flex items-center gap-2">
          <h2 className="font-medium">Snapshots</h2>
          {!over && (
            <Act className="ml-auto" onClick={() => setAsking("save")}>
              New snapshot
            </Act>
          )}
        </div>
        {isPending ? (
          <Skeleton rows={3} />
        ) : data?.length === 0 ? (
          <p className="text-muted">None yet. A snapshot keeps the files as they are at one moment, also when the session is over.</p>
        ) : (
          <ul className="border-t border-line">
            {data?.map((one) => (
              <li key={one.id} className="grid grid-cols-[1fr_auto_auto] items-center gap-3 border-b border-line py-1 sm:grid-cols-[1fr_90px_120px_60px_auto_auto]">
                <span className="truncate">
                  <Text of={one.name || one.id} className="font-mono text-xs" /> {one.label && <Text of={one.label} className="text-muted" />}
                </span>
                <span className="hidden text-muted sm:block">{one.scope}</span>
                <span className="hidden text-muted sm:block">
                  {one.files} files, {(one.sizeBytes / (1 << 20)).toFixed(1)} MiB
                </span>
                <span className="hidden text-muted sm:block">
                  <Ago at={one.createdAt} />
                </span>
                <Act aria-label={`Restore ${plain(one.name || one.id)}`} onClick={() => setAsking({ restore: one })}>
                  Restore
                </Act>
                <Act kind="bad" aria-label={`Delete ${plain(one.name || one.id)}`} onClick={() => setAsking({ remove: one })}>
                  Delete
                </Act>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section>
        <div className="mb-1 flex items-center gap-2">
          <h2 className="font-medium">Forks</h2>
          {!over && (
            <Act className="ml-auto" onClick={() => setAsking("fork")}>
              Fork
            </Act>
          )}
        </div>
        <Family session={session} />
      </section>
      {asking === "save" && <Save id={id} onClose={close} />}
      {asking === "fork" && <Fork id={id} onClose={close} />}
      {typeof asking === "object" && "restore" in asking && <Restore snapshot={asking.restore} onClose={close} />}
      {typeof asking === "object" && "remove" in asking && <Remove snapshot={asking.remove} onClose={close} />}
    </div>
  );
}

/** Family shows the session among those that it was forked from and that were forked from it. */
function Family({ session }: { session: SessionInfo }) {
  const ended = useQuery({ queryKey: ["family", session.id], queryFn: async () => (await client.listSessions({ includeEnded: true })).flatMap((one) => one.info ?? []) });
  const live = useQuery({ queryKey: keys.sessions, queryFn: listSessions });
  if (ended.isPending || live.isPending) return <Skeleton rows={2} />;
  const known = new Map([...(ended.data ?? []), ...(live.data ?? []), session].map((one) => [one.id, one]));
  const children = new Map<string, SessionInfo[]>();
  for (const one of known.values()) {
    if (one.forkedFrom) children.set(one.forkedFrom, [...(children.get(one.forkedFrom) ?? []), one]);
  }
  let root = session;
  for (const seen = new Set<string>(); root.forkedFrom && !seen.has(root.id); ) {
    seen.add(root.id);
    const parent = known.get(root.forkedFrom);
    if (!parent) break;
    root = parent;
  }
  return (
    <>
      <ErrorNote error={ended.error ?? live.error} />
      {root.forkedFrom && (
        <p className="text-muted">
          Forked from <Text of={root.forkedFrom} className="font-mono text-xs" />, which is not known any more.
        </p>
      )}
      <ul aria-label="Forks">
        <Branch of={root} current={session.id} childrenOf={children} seen={[]} />
      </ul>
      {children.size === 0 && !session.forkedFrom && <p className="mt-1 text-muted">No forks yet. A fork begins with the files of this session and goes its own way.</p>}
    </>
  );
}

function Branch({ of, current, childrenOf, seen }: { of: SessionInfo; current: string; childrenOf: ReadonlyMap<string, SessionInfo[]>; seen: string[] }) {
  const below = seen.includes(of.id) ? [] : (childrenOf.get(of.id) ?? []);
  const name = plain(of.name ?? of.id);
  return (
    <li>
      <span className="flex items-center gap-2 py-0.5">
        {of.id === current ? (
          <span aria-current="page" className="truncate font-mono text-xs font-medium">
            {name}
          </span>
        ) : (
          <Link to="/sessions/$id" params={{ id: of.id }} search={{ tab: "snapshots" }} className="truncate font-mono text-xs text-accent hover:underline">
            {name}
          </Link>
        )}
        <Status of={of.status} />
      </span>
      {below.length > 0 && (
        <ul className="ml-1.5 border-l border-line pl-3">
          {below.map((one) => (
            <Branch key={one.id} of={one} current={current} childrenOf={childrenOf} seen={[...seen, of.id]} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** Form is a question with fields, and one act that may fail. */
function Form({ title, verb, bad = false, onClose, act, children }: { title: string; verb: string; bad?: boolean; onClose: () => void; act: (fields: FormData) => Promise<unknown>; children: ReactNode }) {
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setBusy(true);
    try {
      await act(new FormData(event.currentTarget));
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  return (
    <Dialog open onClose={onClose} title={title}>
      <form onSubmit={submit} className="flex flex-col gap-3">
        {children}
        <ErrorNote error={error} />
        <FormButtons onClose={onClose} verb={verb} kind={bad ? "bad" : "main"} disabled={busy} />
      </form>
    </Dialog>
  );
}

const text = (fields: FormData, name: string) => String(fields.get(name) ?? "") || undefined;

export function Save({ id, onClose }: { id: string; onClose: () => void }) {
  const act = async (fields: FormData) => {
    const made = await (await client.getSession(id)).snapshot({ name: text(fields, "name"), label: text(fields, "label"), scope: fields.get("scope") === "workspace" ? "workspace" : undefined });
    notify({ text: `Saved snapshot ${made.name || made.id} of the ${made.scope}` });
  };
  return (
    <Form title="New snapshot" verb="Save" onClose={onClose} act={act}>
      <Field label="Name" name="name" placeholder="optional" />
      <Field label="Note" name="label" placeholder="optional" />
      <Choice label="What" name="scope" options={["sandbox", "workspace"]} hint="sandbox: all files, to be restored with the same image. workspace: /workspace, for any image." />
    </Form>
  );
}

export function Fork({ id, onClose }: { id: string; onClose: () => void }) {
  const act = async (fields: FormData) => {
    const made = await (await client.getSession(id)).fork({ count: Number(fields.get("count")) });
    notify({ text: `Made ${made.length} fork${made.length === 1 ? "" : "s"}` });
  };
  return (
    <Form title="Fork this session" verb="Fork" onClose={onClose} act={act}>
      <p>Each fork begins with the files as they are now. Programs, shells and memory are not copied.</p>
      <Field label="How many" name="count" type="number" min={1} defaultValue={1} required />
    </Form>
  );
}

function Restore({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const navigate = useNavigate();
  const act = async (fields: FormData) => {
    const name = text(fields, "name");
    const made = await client.createSession({ restoreSnapshotId: snapshot.id, name, ...(await byHand(name)) });
    await navigate({ to: "/sessions/$id", params: { id: made.id } });
  };
  return (
    <Form title="Restore" verb="Restore" onClose={onClose} act={act}>
      <p>
        A new session of <Text of={snapshot.image} /> begins with these files. This one stays as it is.
      </p>
      <Field label="Name of the new session" name="name" placeholder="optional" />
    </Form>
  );
}

function Remove({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  return (
    <Form title={`Delete ${plain(snapshot.name || snapshot.id)}?`} verb="Delete" bad onClose={onClose} act={() => client.deleteSnapshot(snapshot.id)}>
      <p>Sessions that began with it keep their files. This cannot be undone.</p>
    </Form>
  );
}
