import { useEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { Button } from "../../ui/button.js";
import { bytes } from "../../ui/table.js";
import { Text, plain } from "../../ui/text.js";
import { uploadsOf, type Upload } from "./uploads.js";

/** More are not shown one by one: the browser would have to draw as many rows as a directory has files. */
const maxRows = 50;

/** What is on its way into the session, and what has not arrived. onArrive is called when files have. */
export function UploadList({ id, onArrive }: { id: string; onArrive: () => void }) {
  const uploads = uploadsOf(id);
  const { list, arrivals } = useSyncExternalStore(uploads.subscribe, uploads.shown);
  const done = list.filter(({ state }) => state === "done");
  const known = useRef(arrivals);
  useEffect(() => {
    if (arrivals > known.current) onArrive();
    known.current = arrivals;
  }, [arrivals, onArrive]);
  // What needs somebody comes first, and what is over last.
  const rows = useMemo(() => {
    const order = ["exists", "failed", "sending", "waiting", "done"];
    return [...list].sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state) || a.key - b.key).slice(0, maxRows);
  }, [list]);
  if (list.length === 0) return null;
  const running = list.filter(({ state }) => state === "sending" || state === "waiting");
  const sum = (of: (one: Upload) => number) => list.reduce((total, one) => total + of(one), 0);
  const speed = running.reduce((total, one) => total + (one.state === "sending" ? one.speed : 0), 0);
  return (
    <section aria-label="Uploads" className="max-h-56 shrink-0 overflow-auto border-t border-line bg-raised px-4 py-2" tabIndex={0}>
      <div className="flex flex-wrap items-center gap-2">
        <p role="status" className="mr-auto">
          {running.length > 0 ? `${done.length} of ${list.length} uploaded` : `${done.length} uploaded`}
          {running.length > 0 && <span className="text-muted">{`, ${bytes(sum(({ sent }) => sent))} of ${bytes(sum(({ size }) => size))}${speed > 0 ? `, ${bytes(speed)}/s` : ""}`}</span>}
        </p>
        {running.length > 1 && <Button onClick={() => uploads.drop(running.map(({ key }) => key))}>Cancel all</Button>}
        {done.length > 0 && (
          <Button kind="bare" onClick={() => uploads.drop(done.map(({ key }) => key))}>
            Clear
          </Button>
        )}
      </div>
      <ul>
        {rows.map((one) => (
          <UploadRow key={one.key} id={id} upload={one} />
        ))}
      </ul>
      {list.length > rows.length && <p className="text-muted">and {list.length - rows.length} more</p>}
    </section>
  );
}

function UploadRow({ id, upload }: { id: string; upload: Upload }) {
  const uploads = uploadsOf(id);
  const { key, path, size, sent, speed, state, problem } = upload;
  const part = size === 0 ? 1 : sent / size;
  const drop = (
    <Button kind="bare" onClick={() => uploads.drop([key])} aria-label={`${state === "sending" || state === "waiting" ? "Cancel" : "Dismiss"} ${plain(path)}`}>
      {state === "sending" || state === "waiting" ? "Cancel" : "Dismiss"}
    </Button>
  );
  return (
    <li className="grid grid-cols-[minmax(0,1fr)_auto] items-center gap-x-3 border-t border-line py-1">
      <span className="truncate">
        <Text of={path} />
      </span>
      <span className="flex items-center gap-2 text-muted">
        {state === "sending" && `${bytes(sent)} of ${bytes(size)}${sent === size ? ", finishing" : speed > 0 ? `, ${bytes(speed)}/s` : ""}`}
        {state === "waiting" && "waits"}
        {state === "done" && `${bytes(size)} \u2713`}
        {state === "exists" && <Button onClick={() => uploads.again(key)}>Replace</Button>}
        {state === "failed" && <Button onClick={() => uploads.again(key)}>Try again</Button>}
        {state !== "done" && drop}
      </span>
      {state === "sending" && (
        <div role="progressbar" aria-label={`Upload of ${plain(path)}`} aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.floor(part * 100)} className="col-span-2 h-1 rounded bg-sunk">
          <div className="h-1 rounded bg-accent" style={{ width: `${part * 100}%` }} />
        </div>
      )}
      {state === "exists" && <p className="col-span-2 text-muted">Something of this name is there. It stays unless you replace it.</p>}
      {state === "failed" && (
        <p role="alert" className="col-span-2 text-bad">
          {plain(problem instanceof Error ? problem.message : String(problem))}
        </p>
      )}
    </li>
  );
}
