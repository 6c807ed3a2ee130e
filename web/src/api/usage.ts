/** What sessions use. Nothing tells of it by itself, so it is asked for while somebody looks. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { SessionUsage } from "@sandkasten/sdk";
import { client } from "./client.js";

/** cpu is in processors, between the last two answers. */
export interface Use extends SessionUsage {
  cpu?: number | undefined;
}

const everyMs = 5000;
/** Of the newest so many; more would cost the daemon more than a look is worth. */
const most = 1000;
const key = ["usage of sessions"];
const none: ReadonlyMap<string, Use> = new Map();

export function useUsage(): ReadonlyMap<string, Use> {
  const cache = useQueryClient();
  const { data } = useQuery({
    queryKey: key,
    queryFn: async () => {
      const before = cache.getQueryData<ReadonlyMap<string, Use>>(key) ?? none;
      const sessions = await client.listSessions({ usage: true, sort: "-created", limit: most, status: ["running"] });
      return new Map(sessions.flatMap(({ id, info }) => (info?.usage ? [[id, since(before.get(id), info.usage)] as const] : [])));
    },
    refetchInterval: everyMs,
  });
  return data ?? none;
}

function since(before: Use | undefined, now: SessionUsage): Use {
  if (before === undefined) return now;
  const seconds = (Date.parse(now.measuredAt) - Date.parse(before.measuredAt)) / 1000;
  if (seconds <= 0) return { ...now, cpu: before.cpu };
  const used = (now.cpuUsageUsec - before.cpuUsageUsec) / 1e6 / seconds;
  return { ...now, cpu: used < 0 ? undefined : used }; // it has begun anew
}
