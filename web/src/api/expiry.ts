/** What becomes of sessions that nobody has used for their time. */
import { useQuery } from "@tanstack/react-query";
import { client } from "./client.js";

const usual = () => client.info().then((info) => info.defaults.onExpiry ?? null);

/** useUsualExpiry is what the daemon does with sessions that ask for nothing: named is stop for one with a name. */
export const useUsualExpiry = () => useQuery({ queryKey: ["info", "on expiry"], queryFn: usual, retry: false }).data ?? undefined;

/** expiryOf is what a session has that somebody makes on the page, and means to come back to: it is stopped, unless the operator has set something else for all. */
export const expiryOf = (usually: "named" | "stop" | "destroy" | null | undefined, name: string | undefined) => (usually === "named" && !name ? { onExpiry: "stop" as const } : {});

/** byHand is expiryOf for who makes a session without asking what it is to be like. */
export const byHand = async (name?: string) => expiryOf(await usual().catch(() => undefined), name);
