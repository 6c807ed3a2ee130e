/** What a session used over its life. */
import { useQuery } from "@tanstack/react-query";
import type { SessionInfo, StatsSample } from "@sandkasten/sdk";
import { useMemo, useState } from "react";
import { client } from "../../api/client.js";
import { Chart } from "../../ui/chart.js";
import { Choice } from "../../ui/field.js";
import { EmptyState, ErrorNote, Skeleton } from "../../ui/notes.js";
import { series, spans, type Series, type Span } from "../../ui/series.js";
import { bytes } from "../../ui/table.js";

/** rates are how fast a counter grew up to each sample. One that is lower than before has begun anew. */
function rates({ times, samples }: Series<StatsSample>, counter: (sample: StatsSample) => number): (number | undefined)[] {
  return samples.map((sample, i) => {
    const before = samples[i - 1];
    if (!sample || !before) return undefined;
    const grown = counter(sample) - counter(before);
    return grown < 0 ? undefined : grown / (times[i]! - times[i - 1]!);
  });
}

export default function Charts({ session }: { session: SessionInfo }) {
  const [span, setSpan] = useState<Span>("the last hour");
  const step = spans[span];
  const { data, error, isPending } = useQuery({
    queryKey: ["history", session.id, step],
    queryFn: async () => (await client.getSession(session.id)).statsHistory({ step }),
    refetchInterval: step * 1000,
  });
  const found = useMemo(() => series(data?.samples ?? [], step), [data, step]);
  if (isPending) return <Skeleton />;
  const of = (value: (sample: StatsSample) => number) => found.samples.map((sample) => sample && value(sample));
  const { limits } = session;
  const mib = 2 ** 20;
  return (
    <div className="flex h-full flex-col gap-4 overflow-auto p-4">
      <div className="w-44">
        <Choice label="" aria-label="Time" options={Object.keys(spans)} value={span} onChange={(event) => setSpan(event.target.value as Span)} />
      </div>
      <ErrorNote error={error} />
      {found.times.length === 0 ? (
        <EmptyState title="Nothing yet">While the session runs, what it uses is recorded every ten seconds, and kept for a day.</EmptyState>
      ) : (
        <div className="grid gap-4 lg:grid-cols-2">
          <Chart title="Processors" times={found.times} limit={limits.cpu} show={(value) => value.toFixed(2)} lines={[{ name: "in use", values: rates(found, (one) => one.cpuUsageUsec / 1e6) }]} />
          <Chart title="Memory" times={found.times} limit={limits.memoryMb && limits.memoryMb * mib} show={bytes} lines={[{ name: "in use", values: of((one) => one.memoryBytes) }]} />
          <Chart title="Disk" times={found.times} limit={limits.diskMb && limits.diskMb * mib} show={bytes} lines={[{ name: "written", values: of((one) => one.diskBytes) }]} />
          <Chart
            title="Network, in a second"
            times={found.times}
            show={bytes}
            lines={[
              { name: "sent", values: rates(found, (one) => one.sentBytes) },
              { name: "received", values: rates(found, (one) => one.receivedBytes) },
            ]}
          />
        </div>
      )}
    </div>
  );
}
