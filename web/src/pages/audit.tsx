/** What was asked of the daemon, newest first. */
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import type { AuditEntry } from "@sandkasten/sdk";
import { useState } from "react";
import { client } from "../api/client.js";
import { useAdmin } from "../api/me.js";
import type { AuditSearch } from "../router.js";
import { Button } from "../ui/button.js";
import { Field, Filter } from "../ui/field.js";
import { EmptyState } from "../ui/notes.js";
import { Page } from "../ui/page.js";
import { Cell, Row, Table } from "../ui/table.js";
import { Text, plain } from "../ui/text.js";
import { Ago } from "../ui/time.js";

const page = getRouteApi("/audit");

/** timeOf reads a field of date and time, which is in the zone of the browser. */
const timeOf = (text: string) => (Number.isNaN(Date.parse(text)) ? undefined : new Date(text));

/** The session that an entry is about: of a fork, the one that was forked. Entries of earlier daemons have it as id. */
const sessionOf = ({ ids, route }: AuditEntry) => (ids?.session ?? (route?.includes("/sessions/{id}") ? ids?.id : undefined))?.split(" ")[0];

export function AuditPage() {
  const search = page.useSearch();
  const navigate = page.useNavigate();
  const admin = useAdmin();
  const [between, setBetween] = useState({ since: "", until: "" });
  const { data, error, isPending, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ["audit", search, between],
    queryFn: ({ pageParam }) => client.listAudit({ ...search, since: timeOf(between.since), until: timeOf(between.until), before: pageParam }),
    placeholderData: keepPreviousData,
    initialPageParam: undefined as number | undefined,
    getNextPageParam: (last) => last.nextBefore,
  });
  const entries = data?.pages.flatMap((one) => one.entries ?? []) ?? [];
  const set = (change: AuditSearch) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const text = (name: "owner" | "route" | "session", label: string, placeholder: string) => (
    <div className="w-48">
      <Filter label={label} value={search[name] ?? ""} placeholder={placeholder} onSettle={(settled) => set({ [name]: settled || undefined })} />
    </div>
  );
  const time = (name: "since" | "until", label: string) => <Field label={label} type="datetime-local" value={between[name]} onChange={(event) => setBetween({ ...between, [name]: event.target.value })} />;
  return (
    <Page
      title="Audit"
      error={error}
      loading={isPending}
      actions={
        <>
          {admin && text("owner", "Owner", "everybody")}
          {text("route", "Route", "POST /v1/sessions")}
          {text("session", "Session", "its id")}
          {time("since", "Since")}
          {time("until", "Until")}
          <label className="flex h-8 items-center gap-2">
            <input type="checkbox" checked={search.changes ?? false} onChange={(event) => set({ changes: event.target.checked || undefined })} /> Changes only
          </label>
          <label className="flex h-8 items-center gap-2">
            <input type="checkbox" checked={search.failed ?? false} onChange={(event) => set({ failed: event.target.checked || undefined })} /> Only what failed
          </label>
        </>
      }
    >
      {entries.length === 0 ? (
        <EmptyState title="Nothing matches">Every request that changes something is recorded here, with who made it. Try fewer filters.</EmptyState>
      ) : (
        <Table label="Audit" columns={["Time", "Owner", "What", "Session", "Status", "Took", "From"]}>
          {entries.map((one) => [one, sessionOf(one)] as const).map(([one, session]) => (
            <Row key={one.seq}>
              <Cell>
                <Ago at={one.time} />
              </Cell>
              <Cell>
                <Text of={one.owner ?? ""} />
                {one.of && (
                  <span className="text-warn">
                    {" "}
                    into <Text of={one.of} />
                  </span>
                )}
              </Cell>
              <Cell>
                <Text of={one.route ?? one.event} className="font-mono text-xs" />
              </Cell>
              <Cell>
                {session && (
                  <Link to="/sessions/$id" params={{ id: session }} className="font-mono text-xs text-accent">
                    {plain(session.slice(0, 8))}
                  </Link>
                )}
              </Cell>
              <Cell>
                <span className={(one.status ?? 0) >= 400 ? "text-bad" : ""}>{one.status}</span>
              </Cell>
              <Cell>{Math.round(one.tookMs)} ms</Cell>
              <Cell>
                <Text of={one.remote ?? ""} />
              </Cell>
            </Row>
          ))}
        </Table>
      )}
      {hasNextPage && (
        <div className="px-4">
          <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
            Earlier entries
          </Button>
        </div>
      )}
    </Page>
  );
}
