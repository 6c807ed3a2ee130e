/** What lies over the page, and from where it is opened. What it is made of is loaded then. */
import type { SessionInfo } from "@sandkasten/sdk";
import { store } from "../ui/store.js";

export type Overlay = { kind: "palette" | "keys" | "create" | "leave" } | { kind: "delete"; sessions: readonly SessionInfo[] } | { kind: "snapshot" | "fork"; id: string };

export const overlay = store<Overlay | undefined>(undefined);

export const open = (one: Overlay) => overlay.set(one);
export const close = () => overlay.set(undefined);
