import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import type { ExecRecord } from "@sandkasten/sdk";
import { useEffect, useMemo, useRef, useState, type FormEvent } from "react";
import { client } from "../api/client.js";
import { keys, mergeExecs } from "../api/live.js";
import { ActForm } from "../ui/act.js";
import { Button } from "../ui/button.js";
import { Copy } from "../ui/copy.js";
import { Search } from "../ui/field.js";
import { EmptyState, ErrorNote, Skeleton } from "../ui/notes.js";
import { Text, marked, plain } from "../ui/text.js";

/** useExecs gives the commands of a session that the page has seen, oldest first. What they use is as new as everyMs. */
export function useExecs(id: string, everyMs?: number) {
  const cache = useQueryClient();
  const key = keys.execs(id);
  return useQuery({
    queryKey: key,
    refetchInterval: everyMs ?? false,
    queryFn: async () => {
      const now = await (await client.getSession(id)).execs();
      const ended = cache.getQueryData<ExecRecord[]>(key)?.filter((one) => one.state === "ended");
      return mergeExecs(ended, now);
    },
  });
}

/** begin returns the command's id when it is there, and fails if it was refused. The events tell how it goes on. */
async function begin(id: string, cmd: string): Promise<string | undefined> {
  const session = await client.getSession(id);
  for await (const event of session.execStream(cmd)) if (event.type === "start") return event.execId; // it goes on without who began it
  return undefined;
}

/** nameOf is what a command or process is called: a terminal without a command of its own runs a login shell. */
export const nameOf = ({ cmd, tty }: ExecRecord): string => plain(cmd) || (tty ? "terminal (login shell)" : "terminal");

export function Commands({ id, alive }: { id: string; alive: boolean }) {
  const cache = useQueryClient();
  const { data, error, isPending } = useExecs(id);
  const [problem, setProblem] = useState<unknown>();
  const [words, setWords] = useState("");
  const [open, setOpen] = useState<string>();
  const run = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const cmd = String(new FormData(form).get("cmd") ?? "");
    if (!cmd.trim()) return;
    setProblem(undefined);
    form.reset();
    try {
      setOpen(await begin(id, cmd)); // its output is what it was run for
    } catch (err) {
      setProblem(err);
      const field = form.elements.namedItem("cmd");
      if (field instanceof HTMLInputElement && field.value === "") field.value = cmd;
    }
    await cache.invalidateQueries({ queryKey: keys.execs(id) });
  };
  const shown = useMemo(() => (data ?? []).filter((one) => one.cmd.toLowerCase().includes(words.toLowerCase())).reverse(), [data, words]);
  return (
    <div className="flex h-full flex-col">
      <ActForm onSubmit={run} className="flex gap-2 px-4 py-2">
        <input name="cmd" aria-label="Command" placeholder={alive ? "a command for the session's shell" : "the session is not running"} disabled={!alive} autoComplete="off" spellCheck={false} className="h-8 min-w-0 flex-1 rounded border border-line bg-raised px-2 font-mono text-xs placeholder:text-muted" />
        <Button type="submit" disabled={!alive}>
          Run
        </Button>
      </ActForm>
      <div className="flex items-center gap-2 px-4 pb-2">
        <Search label="Search commands" placeholder="part of a command" value={words} onChange={(event) => setWords(event.target.value)} />
        <span className="text-muted">
          {shown.length} of {data?.length ?? 0}
        </span>
      </div>
      <div className="px-4">
        <ErrorNote error={error ?? problem} />
      </div>
      {isPending ? (
        <Skeleton />
      ) : data?.length === 0 ? (
        <EmptyState title="No commands yet">What agents and people run in this session is listed here, with its output.</EmptyState>
      ) : shown.length === 0 ? (
        <EmptyState title="Nothing matches">Try a shorter part of the command.</EmptyState>
      ) : (
        <Timeline id={id} records={shown} open={open} onOpen={setOpen} />
      )}
    </div>
  );
}

function Timeline({ id, records, open, onOpen }: { id: string; records: ExecRecord[]; open: string | undefined; onOpen: (execId: string | undefined) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: records.length,
    getScrollElement: () => box.current,
    estimateSize: () => 32,
    overscan: 12,
    getItemKey: (i) => records[i]?.execId ?? i,
  });
  return (
    <div ref={box} tabIndex={0} role="region" aria-label="Commands" className="min-h-0 flex-1 overflow-auto border-t border-line">
      <div role="list" style={{ height: rows.getTotalSize() }} className="relative">
        {rows.getVirtualItems().map((item) => {
          const record = records[item.index];
          if (!record) return null;
          const shown = open === record.execId;
          return (
            <div key={item.key} ref={rows.measureElement} data-index={item.index} role="listitem" aria-setsize={records.length} aria-posinset={item.index + 1} style={{ transform: `translateY(${item.start}px)` }} className="absolute inset-x-0 border-b border-line">
              <button type="button" aria-expanded={shown} onClick={() => onOpen(shown ? undefined : record.execId)} title={plain(record.cmd)} className="grid w-full grid-cols-[auto_1fr_auto] items-center gap-3 px-4 py-1.5 text-left hover:bg-sunk">
                <Clock at={record.startedAt} />
                <code className={`truncate font-mono text-xs ${record.cmd ? "" : "text-muted"}`}>{nameOf(record)}</code>
                <End of={record} />
              </button>
              {shown && <Output id={id} record={record} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Clock({ at }: { at: string | undefined }) {
  if (!at) return <span className="w-16 text-muted">waits</span>;
  const time = new Date(at);
  return (
    <time dateTime={at} title={time.toLocaleString()} className="w-16 text-xs text-muted">
      {time.toTimeString().slice(0, 8)}
    </time>
  );
}

function End({ of }: { of: ExecRecord }) {
  if (of.state !== "ended") return <span className="text-accent">{"\u25d0"} {of.state}</span>;
  const good = of.exitCode === 0;
  return (
    <span className={good ? "text-good" : "text-bad"}>
      {good ? "\u2713" : "\u2715"} {of.cause && of.cause !== "exited" ? plain(of.cause) : of.exitCode} <span className="text-muted">{of.durationMs} ms</span>
    </span>
  );
}

// What colours and moves a terminal is left out.
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** How many characters of an output are shown: its end. */
const maxShown = 256 << 10;
const drawEveryMs = 100;

/** useOutput follows the output of a command from the first byte that is kept. */
function useOutput(id: string, execId: string) {
  const [text, setText] = useState("");
  const [done, setDone] = useState(false);
  const [cut, setCut] = useState(false);
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const ending = new AbortController();
    let kept = "";
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      timer = undefined;
      setText(kept);
    };
    void (async () => {
      try {
        const session = await client.getSession(id, { signal: ending.signal });
        for await (const event of session.attach(execId, { signal: ending.signal })) {
          if (event.type !== "chunk") continue;
          kept += event.text;
          if (kept.length > 2 * maxShown) {
            kept = kept.slice(-maxShown);
            setCut(true);
          }
          timer ??= setTimeout(draw, drawEveryMs);
        }
      } catch (err) {
        if (!ending.signal.aborted) setError(err);
      }
      if (ending.signal.aborted) return;
      clearTimeout(timer);
      draw();
      setDone(true);
    })();
    return () => {
      ending.abort();
      clearTimeout(timer);
    };
  }, [id, execId]);
  return { text, done, cut, error };
}

/** Output of a program as text: one line for a line, and marks for what a terminal would obey. */
export function lines(text: string): string {
  return text
    .replace(escapes, "")
    .split(/\r?\n/)
    .map((line) => plain(line))
    .join("\n");
}

/** How many bytes of a command the daemon keeps. */
const mostOfCommand = 256;

const isCut = (cmd: string) => new TextEncoder().encode(cmd).length >= mostOfCommand;

function Output({ id, record }: { id: string; record: ExecRecord }) {
  const { text, done, cut, error } = useOutput(id, record.execId);
  const shown = useMemo(() => lines(text), [text]);
  return (
    <div className="bg-sunk px-4 py-2">
      {record.cmd && (
        <div className="mb-2">
          <Copy block text={marked(record.cmd)} label="Copy the command" />
          {isCut(record.cmd) && <p className="mt-1 text-xs text-warn">The daemon keeps the first {mostOfCommand} bytes of a command, and these are all.</p>}
        </div>
      )}
      <p className="mb-1 text-xs text-muted">
        in <Text of={record.cwd} />, {record.kind === "shell" ? <>shell <Text of={record.shell} /></> : "a process"}
        {record.state === "ended" && <>, {record.outputBytes} bytes, exit code {record.exitCode}{record.cause && <> (<Text of={record.cause} />)</>}</>}
        {record.timedOut && ", out of time"}
        {record.diskFull && ", the disk was full"}
      </p>
      <ErrorNote error={error} />
      {cut && <p className="text-xs text-warn">Only the end of the output is shown.</p>}
      <pre tabIndex={0} aria-label="Output" className="max-h-96 overflow-auto font-mono text-xs whitespace-pre-wrap">
        {shown || (done ? !error && "(no output)" : "\u2026")}
      </pre>
    </div>
  );
}
