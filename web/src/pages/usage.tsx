/** What an owner used in a month, and what of each quota. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { OwnerUsage } from "@sandkasten/sdk";
import { client } from "../api/client.js";
import { useAdmin } from "../api/me.js";
import { Filter } from "../ui/field.js";
import { ErrorNote } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table, bytes } from "../ui/table.js";
import { Text } from "../ui/text.js";

const route = getRouteApi("/usage");
const mib = 2 ** 20;

interface Line {
  name: string;
  used: number;
  limit?: number | undefined;
  show: (value: number) => string;
}

const count = (value: number) => value.toLocaleString("en", { maximumFractionDigits: 1 });
const span = (seconds: number) => (seconds < 3600 ? `${count(seconds / 60)} min` : `${count(seconds / 3600)} h`);

function lines({ now, quota, ...used }: OwnerUsage): Line[] {
  const times = (value: number | undefined) => value && value * mib;
  return [
    { name: "Sessions", used: now.sessions, limit: quota.maxSessions, show: count },
    { name: "Running sessions", used: now.runningSessions, limit: quota.maxRunningSessions, show: count },
    { name: "Processors", used: now.cpu, limit: quota.cpu, show: count },
    { name: "Memory", used: now.memoryMb * mib, limit: times(quota.memoryMb), show: bytes },
    { name: "Disk", used: now.diskMb * mib, limit: times(quota.diskMb), show: bytes },
    { name: "Workspaces", used: now.workspaces, limit: quota.maxWorkspaces, show: count },
    { name: "Snapshots", used: now.snapshotBytes, limit: times(quota.snapshotMb), show: bytes },
    { name: "Time of sessions, in the month", used: used.sessionSeconds, limit: quota.sessionSecondsPerMonth, show: span },
    { name: "Time of processors, in the month", used: used.cpuSeconds, show: span },
    { name: "Network, in the month", used: used.sentBytes + used.receivedBytes, limit: times(quota.networkMbPerMonth), show: bytes },
    { name: "Sessions made, in the month", used: used.sessionsCreated, show: count },
  ];
}

const aMonth = /^\d{4}-(0[1-9]|1[0-2])$/;

export function UsagePage() {
  const { month, user, all } = route.useSearch();
  const navigate = route.useNavigate();
  const admin = useAdmin();
  const everybody = admin && all === true;
  const { data, error, isPending } = useQuery({
    queryKey: ["usage", month, user],
    queryFn: () => (user ? client.userUsage(user, { month }) : client.myUsage({ month })),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });
  return (
    <Page
      title="Usage"
      error={error}
      loading={isPending}
      actions={
        <>
          <div className="w-40">
            {/* Firefox and Safari have a field of text for it. */}
            <Filter
              label="Month"
              type="month"
              placeholder="YYYY-MM"
              pattern="[0-9]{4}-[0-9]{2}"
              value={month ?? data?.month ?? ""}
              check={(text) => (text === "" || aMonth.test(text) ? undefined : "Write it as YYYY-MM.")}
              onSettle={(text) => void navigate({ search: (old) => ({ ...old, month: text || undefined }), replace: true })}
            />
          </div>
          {admin && (
            <label className="flex h-8 items-center gap-2">
              <input type="checkbox" checked={everybody} onChange={(event) => void navigate({ search: (old) => ({ ...old, all: event.target.checked || undefined }), replace: true })} /> All owners
            </label>
          )}
          <a href={`/v1/usage/days?format=csv${user ? `&owner=${encodeURIComponent(user)}` : ""}`} download className="text-accent">
            By day, as CSV
          </a>
          {admin && !everybody && (
            <div className="w-48">
              <Filter label="User" value={user ?? ""} placeholder="yourself" onSettle={(text) => void navigate({ search: (old) => ({ ...old, user: text || undefined }), replace: true })} />
            </div>
          )}
        </>
      }
    >
      {everybody && <Owners month={month} />}
      {data && !everybody && (
        <Table label="Usage" columns={["", "Used", "Quota", "Part"]}>
          {lines(data).map(({ name, used, limit, show }) => (
            <Row key={name}>
              <Cell>{name}</Cell>
              <Cell>{show(used)}</Cell>
              <Cell>{limit ? show(limit) : "none"}</Cell>
              <Cell>{limit ? <meter aria-label={name} min={0} max={limit} value={Math.min(used, limit)} high={limit * 0.8} optimum={0} className="w-40" /> : null}</Cell>
            </Row>
          ))}
        </Table>
      )}
    </Page>
  );
}

/** What all owners use: who has most memory in use comes first. */
function Owners({ month }: { month: string | undefined }) {
  const { data, error } = useQuery({ queryKey: ["usage of all", month], queryFn: () => client.allUsage({ month }), placeholderData: keepPreviousData, refetchInterval: 10_000 });
  const owners = [...(data?.owners ?? [])].sort((a, b) => b.memoryBytes - a.memoryBytes);
  return (
    <>
      <ErrorNote error={error} />
      <Table label="Owners" columns={["Owner", "Memory", "of", "Running", "Sessions", "Time of sessions", "Time of processors", "Network", "Disk", "Snapshots"]}>
        {owners.map((one) => (
          <Row key={one.owner}>
            <Cell>
              <Link to="/" search={{ owner: one.owner }} className="text-accent">
                <Text of={one.owner} />
              </Link>
            </Cell>
            <Cell>{bytes(one.memoryBytes)}</Cell>
            <Cell>{bytes(one.now.memoryMb * mib)}</Cell>
            <Cell>{one.now.runningSessions}</Cell>
            <Cell>{one.now.sessions}</Cell>
            <Cell>{span(one.sessionSeconds)}</Cell>
            <Cell>{span(one.cpuSeconds)}</Cell>
            <Cell>{bytes(one.sentBytes + one.receivedBytes)}</Cell>
            <Cell>{bytes(one.now.diskMb * mib)}</Cell>
            <Cell>{bytes(one.now.snapshotBytes)}</Cell>
          </Row>
        ))}
      </Table>
    </>
  );
}
