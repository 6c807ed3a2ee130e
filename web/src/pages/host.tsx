/** The host, for its operator: how full it is, what the daemon does, and what is wrong. */
import { useQuery } from "@tanstack/react-query";
import type { HostSample } from "@sandkasten/sdk";
import { useMemo, useState, type ReactNode } from "react";
import { client } from "../api/client.js";
import { keys } from "../api/live.js";
import { useAdmin } from "../api/me.js";
import { Chart, type Line } from "../ui/chart.js";
import { Choice } from "../ui/field.js";
import { EmptyState, ErrorNote } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { series, spans, type Span } from "../ui/series.js";
import { Cell, Row, Table, bytes } from "../ui/table.js";
import { Text } from "../ui/text.js";
import { Ago } from "../ui/time.js";
import { Findings } from "./host/findings.js";

const count = (value: number) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const cores = (value: number) => value.toFixed(2);
const millis = (value: number) => (value < 1000 ? `${value > 0 && value < 10 ? value.toFixed(1) : Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`);

/** The states in which a session counts against the limit. */
const alive = ["creating", "starting", "running", "paused"];
const aliveIn = ({ sessions }: HostSample) => alive.reduce((sum, state) => sum + (sessions[state] ?? 0), 0);
const perMinute = ({ creates, seconds }: HostSample) => (seconds > 0 ? (creates * 60) / seconds : 0);
const errorsIn = (one: HostSample) => one.createErrors + one.requestErrors;

export function HostPage() {
  const admin = useAdmin();
  if (admin) return <ForAdmins />;
  return (
    <Page title="Host">
      <EmptyState title="For admins">It tells of the sessions of all. Sign in as an admin, or ask one.</EmptyState>
    </Page>
  );
}

function ForAdmins() {
  const [span, setSpan] = useState<Span>("the last hour");
  const step = spans[span];
  const history = useQuery({ queryKey: ["host", "history", step], queryFn: () => client.hostHistory({ step }), refetchInterval: step * 1000 });
  const samples = history.data?.samples ?? [];
  const last = samples.at(-1);
  return (
    <Page
      title="Host"
      error={history.error}
      loading={history.isPending}
      actions={
        <div className="w-44">
          <Choice label="" aria-label="Time" options={Object.keys(spans)} value={span} onChange={(event) => setSpan(event.target.value as Span)} />
        </div>
      }
    >
      {last && <Tiles last={last} samples={samples} span={span} />}
      <Findings />
      <ReadySandboxes />
      {history.data && (last ? <Charts samples={samples} step={step} /> : <EmptyState title="Nothing recorded yet">{step === 10 ? "The daemon records how full the host is every ten seconds." : "The first minute is not over yet."} It keeps that for a day, also over its restarts.</EmptyState>)}
    </Page>
  );
}

function Tile({ name, value, limit, show, children }: { name: string; value: number; limit?: number | undefined; show: (value: number) => string; children?: ReactNode }) {
  return (
    <div className="rounded border border-line bg-raised px-3 py-2">
      <dt className="text-xs text-muted">{name}</dt>
      <dd>
        <span className="text-lg font-semibold">{show(value)}</span>
        {limit ? <span className="text-muted"> of {show(limit)}</span> : null}
        {limit ? <meter aria-label={name} min={0} max={limit} value={Math.min(value, limit)} high={limit * 0.8} optimum={0} className="block w-full" /> : null}
        {children && <span className="block text-xs text-muted">{children}</span>}
      </dd>
    </div>
  );
}

function Tiles({ last, samples, span }: { last: HostSample; samples: HostSample[]; span: Span }) {
  const since = Date.parse(last.at) - 60_000;
  const creates = samples.reduce((sum, one) => sum + (Date.parse(one.at) > since ? one.creates : 0), 0);
  const made = samples.findLast((one) => one.creates > 0);
  const ran = samples.findLast((one) => one.execs > 0);
  const failed = (of: (one: HostSample) => number) => samples.reduce((sum, one) => sum + of(one), 0);
  const others = Object.entries(last.sessions).filter(([state, n]) => n > 0 && state !== "running");
  return (
    <dl className="grid grid-cols-2 gap-2 px-4 md:grid-cols-4">
      <Tile name="Processors" value={last.cpuUsed} limit={last.cpuLimit} show={count} />
      <Tile name="Memory" value={last.memoryBytes} limit={last.memoryLimit} show={bytes} />
      <Tile name="Disk" value={last.diskBytes} limit={last.diskLimit} show={bytes} />
      {last.diskPoolLimit ? <Tile name="Pool of disks" value={last.diskPoolBytes ?? 0} limit={last.diskPoolLimit} show={bytes} /> : null}
      <Tile name="Sessions" value={aliveIn(last)} limit={last.sessionsLimit} show={count}>
        {[`${last.sessions.running ?? 0} running`, ...others.map(([state, n]) => `${n} ${state}`)].join(", ")}
      </Tile>
      <Tile name="Sessions made, in the last minute" value={creates} show={count} />
      <Tile name="To make a session" value={made?.createP50Ms ?? 0} show={(value) => (made ? millis(value) : "none made")}>
        {made && (
          <>
            p99 {millis(made.createP99Ms ?? 0)}, <Ago at={made.at} />
          </>
        )}
      </Tile>
      <Tile name="To run a command" value={ran?.execP50Ms ?? 0} show={(value) => (ran ? millis(value) : "none ran")}>
        {ran && (
          <>
            p99 {millis(ran.execP99Ms ?? 0)}, <Ago at={ran.at} />
          </>
        )}
      </Tile>
      <Tile name={`Errors of the daemon, ${span}`} value={failed(errorsIn)} show={count}>
        {failed(errorsIn) > 0 && `${count(failed((one) => one.requestErrors))} requests, ${count(failed((one) => one.createErrors))} creates`}
      </Tile>
    </dl>
  );
}

/** What the pool has of each image. Events keep it fresh. */
function ReadySandboxes() {
  const { data, error } = useQuery({ queryKey: keys.pool, queryFn: () => client.poolStatus() });
  return (
    <section aria-labelledby="ready" className="flex flex-col gap-2">
      <h2 id="ready" className="px-4 font-semibold">
        Ready sandboxes
      </h2>
      {Boolean(error) && (
        <div className="px-4">
          <ErrorNote error={error} />
        </div>
      )}
      {data?.short && (
        <p className="px-4 text-warn">
          The host is short of <Text of={data.short} />, so the pool gives back what it has.
        </p>
      )}
      {data && (data.images ?? []).length === 0 && (
        <p className="px-4 text-muted">
          None are kept. Sessions begin in a third of the time with <code className="font-mono text-xs">pool: {"{enabled: true}"}</code> in the configuration: <a href="/docs/pool.html" className="text-accent underline">the pool</a>.
        </p>
      )}
      {data && (data.images ?? []).length > 0 && (
        <Table label="Ready sandboxes" columns={["Image", "Ready", "Wanted", "Sessions that got one", "Sessions that waited", "To make one", "What is wrong"]}>
          {data.images.map((one) => (
            <Row key={one.image}>
              <Cell>
                <Text of={one.image} />
              </Cell>
              <Cell>{one.ready}</Cell>
              <Cell>
                {one.wanted}
                {one.auto && " (learned)"}
              </Cell>
              <Cell>{count(one.hits)}</Cell>
              <Cell>{count(one.misses)}</Cell>
              <Cell>{one.makeMs > 0 ? millis(one.makeMs) : ""}</Cell>
              <Cell>
                <Text of={one.error ?? ""} className="text-bad" />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
    </section>
  );
}

function Charts({ samples, step }: { samples: HostSample[]; step: number }) {
  const found = useMemo(() => series(samples, step), [samples, step]);
  const last = samples.at(-1);
  const line = (name: string, value: (one: HostSample) => number | undefined): Line => ({ name, values: found.samples.map((one) => one && value(one)) });
  const all: { title: string; limit?: number | undefined; show: (value: number) => string; dots?: boolean; lines: Line[] }[] = [
    { title: "Processors", limit: last?.cpuLimit, show: cores, lines: [line("in use", (one) => one.cpuUsed)] },
    { title: "Memory", limit: last?.memoryLimit, show: bytes, lines: [line("in use", (one) => one.memoryBytes)] },
    { title: "Disk", limit: last?.diskLimit, show: bytes, lines: [line("written", (one) => one.diskBytes)] },
    { title: "Sessions", limit: last?.sessionsLimit, show: count, lines: [line("alive", aliveIn), line("running", (one) => one.sessions.running ?? 0)] },
    { title: "Ready sandboxes", show: count, lines: [line("ready", (one) => one.poolReady), line("wanted", (one) => one.poolWanted)] },
    { title: "Sessions made, in a minute", show: count, lines: [line("made", perMinute)] },
    { title: "To make a session", show: millis, dots: true, lines: [line("p50", (one) => one.createP50Ms), line("p90", (one) => one.createP90Ms), line("p99", (one) => one.createP99Ms)] },
    { title: "To run a command", show: millis, dots: true, lines: [line("p50", (one) => one.execP50Ms), line("p90", (one) => one.execP90Ms), line("p99", (one) => one.execP99Ms)] },
    { title: "Errors of the daemon", show: count, lines: [line("requests", (one) => one.requestErrors), line("creates", (one) => one.createErrors)] },
    { title: "Commands out of memory", show: count, lines: [line("ended", (one) => one.execOomKills)] },
  ];
  return (
    <section aria-label="Charts" className="grid gap-4 px-4 lg:grid-cols-2">
      {all.map((one) => (
        <Chart key={one.title} times={found.times} {...one} />
      ))}
    </section>
  );
}
