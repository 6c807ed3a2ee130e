/** What sessions use, and when they did something last. Nothing tells of it by itself, so it is asked for while somebody looks. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { SessionInfo, SessionUsage } from "@sandkasten/sdk";
import { client } from "./client.js";
import { keys } from "./live.js";

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
      cache.setQueryData<SessionInfo[]>(keys.sessions, (all) => all && withActivity(all, sessions.flatMap(({ info }) => info ?? [])));
      return new Map(sessions.flatMap(({ id, info }) => (info?.usage ? [[id, since(before.get(id), info.usage)] as const] : [])));
    },
    refetchInterval: everyMs,
  });
  return data ?? none;
}

/** withActivity is a list with the newer times of what was asked for now: activity is no event. */
export function withActivity(all: SessionInfo[], now: SessionInfo[]): SessionInfo[] {
  const fresh = new Map(now.map((one) => [one.id, one]));
  let changed = false;
  const next = all.map((one) => {
    const { lastActivity, expiresAt } = fresh.get(one.id) ?? one;
    if (Date.parse(lastActivity) <= Date.parse(one.lastActivity)) return one;
    changed = true;
    return { ...one, lastActivity, expiresAt };
  });
  return changed ? next : all;
}

function since(before: Use | undefined, now: SessionUsage): Use {
  if (before === undefined) return now;
  const seconds = (Date.parse(now.measuredAt) - Date.parse(before.measuredAt)) / 1000;
  if (seconds <= 0) return { ...now, cpu: before.cpu };
  const used = (now.cpuUsageUsec - before.cpuUsageUsec) / 1e6 / seconds;
  return { ...now, cpu: used < 0 ? undefined : used }; // it has begun anew
}
