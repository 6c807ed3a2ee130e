/** What doctor and fsck find, with what mends it. */
import { useQuery } from "@tanstack/react-query";
import type { HostFinding } from "@sandkasten/sdk";
import { client } from "../../api/client.js";
import { Button } from "../../ui/button.js";
import { Copy } from "../../ui/copy.js";
import { ErrorNote, Skeleton } from "../../ui/notes.js";
import { Text } from "../../ui/text.js";
import { Ago } from "../../ui/time.js";

const looks = {
  fail: { shape: "\u2715", colour: "text-bad", word: "must be mended" },
  warn: { shape: "\u25b2", colour: "text-warn", word: "could be better" },
} as const;

export function Findings() {
  const { data, error, isPending, isFetching, refetch } = useQuery({ queryKey: ["host", "findings"], queryFn: () => client.hostFindings(), refetchInterval: 120_000 });
  const all = data?.findings ?? [];
  return (
    <section aria-labelledby="findings" className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-3 px-4">
        <h2 id="findings" className="font-semibold">
          Findings
        </h2>
        {data && (
          <span className="text-muted">
            examined <Ago at={data.at} />
            {Date.now() - Date.parse(data.at) >= 5000 && " ago"}
          </span>
        )}
        <Button kind="bare" disabled={isFetching} onClick={() => void refetch()}>
          {isFetching ? "Looking" : "Look again"}
        </Button>
      </div>
      {Boolean(error) && (
        <div className="px-4">
          <ErrorNote error={error} />
        </div>
      )}
      {isPending && (
        <>
          <p className="px-4 text-muted">If something differs this takes six seconds: only what lasts is shown.</p>
          <Skeleton rows={3} />
        </>
      )}
      {data && all.length === 0 && (
        <p className="px-4 text-muted">
          <span aria-hidden className="text-good">
            {"\u25cf"}
          </span>{" "}
          Nothing is wrong: the host is as it should be, and what there is agrees with the database.
        </p>
      )}
      {all.length > 0 && (
        <ul aria-label="Findings" className="border-y border-line">
          {all.map((one) => (
            <Finding key={`${one.source} ${one.what} ${one.where} ${one.found}`} of={one} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Finding({ of: one }: { of: HostFinding }) {
  const { shape, colour, word } = looks[one.severity];
  return (
    <li className="grid grid-cols-[auto_1fr] gap-x-2 border-t border-line px-4 py-2 first:border-t-0">
      <span aria-hidden className={`w-3 text-center ${colour}`}>
        {shape}
      </span>
      <div className="flex min-w-0 flex-col gap-1">
        <p className="break-words">
          <span className="sr-only">{word}: </span>
          <span className="font-semibold">
            <Text of={one.what} /> <Text of={one.where ?? ""} className="font-mono text-xs font-normal break-all" />
          </span>{" "}
          <Text of={one.found} />
          {one.expected && (
            <span className="text-muted">
              {" "}
              instead of <Text of={one.expected} />
            </span>
          )}
        </p>
        {one.mend && (
          <p className="break-words text-muted">
            <Text of={one.mend} />
          </p>
        )}
        {one.command && <Copy text={one.command} label="Copy the command" />}
      </div>
    </li>
  );
}
