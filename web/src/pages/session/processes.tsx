/** What runs in a session now, and how to end it. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { ExecRecord, Shell } from "@sandkasten/sdk";
import { useState } from "react";
import { client } from "../../api/client.js";
import { keys } from "../../api/live.js";
import { Act } from "../../ui/act.js";
import { Button } from "../../ui/button.js";
import { Dialog } from "../../ui/dialog.js";
import { Choice } from "../../ui/field.js";
import { EmptyState, ErrorNote, Skeleton } from "../../ui/notes.js";
import { Text, plain } from "../../ui/text.js";
import { Ago } from "../../ui/time.js";
import { nameOf, useExecs } from "../commands.js";

const pollMs = 2000;
const all = "end it with all that it started";
const signals = [all, "TERM", "INT", "HUP", "QUIT", "KILL", "STOP", "CONT", "USR1", "USR2"] as const;

type Target = { exec: ExecRecord } | { shell: Shell };

export default function ProcessesTab({ id, status }: { id: string; status: string }) {
  const cache = useQueryClient();
  const alive = status === "running" || status === "paused";
  const execs = useExecs(id, alive ? pollMs : undefined);
  const shells = useQuery({ queryKey: ["shells", id], enabled: alive, refetchInterval: pollMs, queryFn: async () => (await client.getSession(id)).shells() });
  const stats = useQuery({ queryKey: ["stats", id], enabled: alive, refetchInterval: pollMs, queryFn: async () => (await client.getSession(id)).stats() });
  const [target, setTarget] = useState<Target>();
  const [problem, setProblem] = useState<unknown>();
  if (!alive) return <EmptyState title="Nothing runs">The session is {status}. Start it to run programs.</EmptyState>;
  const running = (execs.data ?? []).filter((one) => one.state !== "ended");
  const end = async (what: Target, signal: string) => {
    setTarget(undefined);
    setProblem(undefined);
    try {
      const session = await client.getSession(id);
      if ("shell" in what) await session.closeShell(what.shell.name);
      else if (signal === all) await session.processes.get(what.exec.execId).kill();
      else await session.processes.get(what.exec.execId).signal(signal);
    } catch (err) {
      setProblem(err);
    }
    await Promise.all([cache.invalidateQueries({ queryKey: keys.execs(id) }), cache.invalidateQueries({ queryKey: ["shells", id] })]);
  };
  return (
    <div tabIndex={0} role="region" aria-label="Processes" className="flex h-full flex-col gap-4 overflow-auto p-4">
      {stats.data && (
        <p className="text-muted">
          {stats.data.pids} of {stats.data.pidsLimit} processes and threads, {mebibytes(stats.data.memoryBytes)} of memory
        </p>
      )}
      <ErrorNote error={problem ?? execs.error ?? shells.error ?? stats.error} />
      <section>
        <h2 className="mb-1 font-medium">Commands and processes</h2>
        {execs.isPending ? (
          <Skeleton rows={3} />
        ) : running.length === 0 ? (
          <p className="text-muted">No command runs at the moment. What has ended is in the tab commands.</p>
        ) : (
          <ul className="border-t border-line">
            {running.map((one) => (
              <li key={one.execId} className="grid grid-cols-[1fr_auto] items-center gap-3 border-b border-line py-1 sm:grid-cols-[1fr_120px_90px_70px_auto]">
                <code className="truncate font-mono text-xs">
                  {nameOf(one)}
                </code>
                <span className="hidden truncate text-muted sm:block">{one.kind === "shell" ? <>shell <Text of={one.shell} /></> : one.pid ? `pid ${one.pid}` : one.kind}</span>
                <span className="hidden text-muted sm:block">{one.usage ? mebibytes(one.usage.memoryBytes) : one.state}</span>
                <span className="hidden text-muted sm:block">{one.startedAt && <Ago at={one.startedAt} />}</span>
                <Act aria-label={`Signal ${nameOf(one)}`} onClick={() => setTarget({ exec: one })}>
                  Signal
                </Act>
              </li>
            ))}
          </ul>
        )}
      </section>
      <section>
        <h2 className="mb-1 font-medium">Shells</h2>
        {shells.data?.length === 0 ? (
          <p className="text-muted">No shell yet: the first command makes one.</p>
        ) : (
          <ul className="border-t border-line">
            {shells.data?.map((one) => (
              <li key={one.name} className="border-b border-line py-1">
                <div className="grid grid-cols-[1fr_auto] items-center gap-3 sm:grid-cols-[1fr_1fr_120px_auto]">
                  <Text of={one.name} className="truncate font-mono text-xs" />
                  <Text of={one.cwd} className="hidden truncate font-mono text-xs sm:block" />
                  <span className="hidden text-muted sm:block">
                    {one.state}
                    {one.queued > 0 && `, ${one.queued} wait`}
                  </span>
                  <Act aria-label={`Close shell ${plain(one.name)}`} onClick={() => setTarget({ shell: one })}>
                    Close
                  </Act>
                </div>
                {one.jobs?.map((job) => (
                  <p key={job.pid} className="pl-4 text-muted">
                    in the background: <Text of={job.command} className="font-mono text-xs" />, pid {job.pid}, {mebibytes(job.usage?.memoryBytes ?? 0)}
                  </p>
                ))}
              </li>
            ))}
          </ul>
        )}
      </section>
      {target && <Ask target={target} onClose={() => setTarget(undefined)} onEnd={(signal) => void end(target, signal)} />}
    </div>
  );
}

function Ask({ target, onClose, onEnd }: { target: Target; onClose: () => void; onEnd: (signal: string) => void }) {
  const [signal, setSignal] = useState<string>(all);
  const shell = "shell" in target;
  return (
    <Dialog open onClose={onClose} title={shell ? `Close shell ${plain(target.shell.name)}?` : "Send a signal?"}>
      {shell ? (
        <p className="mb-4">All that it started ends, also in the background. Its directory and variables are lost; the next command that names it gets a new one.</p>
      ) : (
        <div className="mb-4 flex flex-col gap-3">
          <code className="max-h-24 overflow-auto font-mono text-xs break-all">{nameOf(target.exec)}</code>
          <Choice label="Signal" options={signals} value={signal} onChange={(event) => setSignal(event.target.value)} hint="To end it: TERM first, and KILL after a grace." />
        </div>
      )}
      <div className="flex justify-end gap-2">
        <Button onClick={onClose}>Leave it</Button>
        <Button kind="bad" onClick={() => onEnd(signal)}>
          {shell ? "Close shell" : signal === all ? "End it" : `Send ${signal}`}
        </Button>
      </div>
    </Dialog>
  );
}

const mebibytes = (bytes: number) => `${(bytes / (1 << 20)).toFixed(1)} MiB`;
