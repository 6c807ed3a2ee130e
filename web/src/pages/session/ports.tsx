/** What listens in a session, and links that open it. */
import { useQuery } from "@tanstack/react-query";
import type { Preview } from "@sandkasten/sdk";
import { useState, type FormEvent } from "react";
import { client } from "../../api/client.js";
import { Act, ActForm } from "../../ui/act.js";
import { Button } from "../../ui/button.js";
import { Copy } from "../../ui/copy.js";
import { Dialog } from "../../ui/dialog.js";
import { Field } from "../../ui/field.js";
import { EmptyState, ErrorNote, Skeleton } from "../../ui/notes.js";
import { Text } from "../../ui/text.js";

const pollMs = 3000;

export default function PortsTab({ id, status }: { id: string; status: string }) {
  const alive = status === "running" || status === "paused";
  const { data, error, isPending } = useQuery({ queryKey: ["ports", id], enabled: alive, refetchInterval: pollMs, queryFn: async () => (await client.getSession(id)).ports.list() });
  const [opening, setOpening] = useState<number>();
  if (!alive) return <EmptyState title="Nothing listens">The session is {status}. Start it, and a server in it.</EmptyState>;
  const other = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setOpening(Number(new FormData(event.currentTarget).get("port")));
  };
  return (
    <div tabIndex={0} role="region" aria-label="Ports" className="flex h-full flex-col gap-3 overflow-auto p-4">
      <ErrorNote error={error} />
      {isPending ? (
        <Skeleton rows={3} />
      ) : data?.length === 0 ? (
        <EmptyState title="Nothing listens">
          <p className="mb-3">A server in the session is listed here as soon as it listens. Try one in the terminal:</p>
          <Copy text="python3 -m http.server 3000" />
        </EmptyState>
      ) : (
        <ul className="border-t border-line">
          {data?.map((one) => (
            <li key={`${one.address} ${one.port}`} className="grid grid-cols-[70px_1fr_auto] items-center gap-3 border-b border-line py-1">
              <span className="font-mono text-xs">{one.port}</span>
              <span className="truncate text-muted">
                <Text of={one.address} />
                {one.loopback && ", inside only; previews reach it"}
              </span>
              <Act aria-label={`Preview of port ${one.port}`} onClick={() => setOpening(one.port)}>
                Preview
              </Act>
            </li>
          ))}
        </ul>
      )}
      <ActForm onSubmit={other} className="flex max-w-xs items-end gap-2">
        <Field label="A port that is not listed yet" name="port" type="number" min={1} max={65535} required />
        <Button type="submit">Preview</Button>
      </ActForm>
      {opening !== undefined && <Open id={id} port={opening} onClose={() => setOpening(undefined)} />}
    </div>
  );
}

/** A link to the port, for as long as it is wished. It is made only when it is asked for, since it cannot be taken back. */
function Open({ id, port, onClose }: { id: string; port: number; onClose: () => void }) {
  const [minutes, setMinutes] = useState("60");
  const [made, setMade] = useState<Preview>();
  const [error, setError] = useState<unknown>();
  const make = async (event: FormEvent) => {
    event.preventDefault();
    setError(undefined);
    try {
      setMade(await (await client.getSession(id)).ports.preview(port, { ttlSeconds: Number(minutes) * 60 }));
    } catch (err) {
      setError(err);
    }
  };
  const url = made && new URL(made.url, window.location.origin);
  const web = url && (url.protocol === "http:" || url.protocol === "https:") ? url : undefined;
  return (
    <Dialog open onClose={onClose} title={`Preview of port ${port}`}>
      <form onSubmit={make} className="flex flex-col gap-3">
        <ErrorNote error={error} />
        {web && made ? (
          <>
            <a href={web.href} target="_blank" rel="noopener noreferrer" className="text-accent underline">
              Open port {port} in a new tab
            </a>
            <Copy text={web.href} label="Copy the link" />
            <p className="text-muted">Until {new Date(made.expiresAt).toLocaleString()}.</p>
            {web.origin === window.location.origin && (
              <p className="text-warn">This daemon has no preview.domain, so the browser shows single pages only: scripts that need an origin of their own do not work.</p>
            )}
          </>
        ) : (
          <>
            <p>Who has the link can open this port of this session, and nothing else. It cannot be taken back before it expires or the session ends.</p>
            <Field label="Minutes" type="number" min={1} required value={minutes} onChange={(event) => setMinutes(event.target.value)} />
          </>
        )}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Close</Button>
          {!made && (
            <Button kind="main" type="submit">
              Make a link
            </Button>
          )}
        </div>
      </form>
    </Dialog>
  );
}
