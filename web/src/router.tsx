import { createRootRoute, createRoute, createRouter, redirect } from "@tanstack/react-router";
import { Shell } from "./shell.js";
import { SessionsPage } from "./pages/sessions.js";
import { Failed, late } from "./ui/late.js";
import { Skeleton } from "./ui/notes.js";

const root = createRootRoute({ component: Shell });

export interface SessionsSearch {
  q?: string | undefined;
  status?: string | undefined;
  owner?: string | undefined;
}

const sessions = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: SessionsPage,
  validateSearch: (search: Record<string, unknown>): SessionsSearch => ({
    q: typeof search.q === "string" ? search.q : undefined,
    status: typeof search.status === "string" ? search.status : undefined,
    owner: typeof search.owner === "string" ? search.owner : undefined,
  }),
});

const all = createRoute({ getParentRoute: () => root, path: "/sessions", beforeLoad: () => { throw redirect({ to: "/" }); } });

export const tabs = ["terminal", "commands", "processes", "ports", "network", "files", "snapshots", "charts", "limits", "about", "notebook"] as const;
export type Tab = (typeof tabs)[number];

/** The key of a tab: 1 to 9, and 0 for the tenth. There is no digit for the notebook. */
export const tabKey = (index: number) => (index < 10 ? String((index + 1) % 10) : "b");

const session = createRoute({
  getParentRoute: () => root,
  path: "/sessions/$id",
  component: late(() => import("./pages/session.js").then((page) => page.SessionPage)),
  validateSearch: (search: Record<string, unknown>): { tab?: Tab | undefined; path?: string | undefined } => ({
    tab: tabs.find((name) => name === search.tab),
    path: typeof search.path === "string" ? search.path : undefined,
  }),
});

const images = createRoute({ getParentRoute: () => root, path: "/images", component: late(() => import("./pages/images.js").then((page) => page.ImagesPage)) });

const workspaces = createRoute({ getParentRoute: () => root, path: "/workspaces", component: late(() => import("./pages/workspaces.js").then((page) => page.WorkspacesPage)) });

const secrets = createRoute({ getParentRoute: () => root, path: "/secrets", component: late(() => import("./pages/secrets.js").then((page) => page.SecretsPage)) });

const optional = (search: Record<string, unknown>, name: string): string | undefined => (typeof search[name] === "string" && search[name] !== "" ? search[name] : undefined);

const usage = createRoute({
  getParentRoute: () => root,
  path: "/usage",
  component: late(() => import("./pages/usage.js").then((page) => page.UsagePage)),
  validateSearch: (search: Record<string, unknown>): { month?: string | undefined; user?: string | undefined; all?: boolean | undefined } => ({ month: optional(search, "month"), user: optional(search, "user"), all: search.all === true || undefined }),
});

const users = createRoute({ getParentRoute: () => root, path: "/users", component: late(() => import("./pages/users.js").then((page) => page.UsersPage)) });

export interface AuditSearch {
  owner?: string | undefined;
  route?: string | undefined;
  session?: string | undefined;
  failed?: boolean | undefined;
  changes?: boolean | undefined;
}

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  component: late(() => import("./pages/audit.js").then((page) => page.AuditPage)),
  validateSearch: (search: Record<string, unknown>): AuditSearch => ({ owner: optional(search, "owner"), route: optional(search, "route"), session: optional(search, "session"), failed: search.failed === true || undefined, changes: search.changes === true || undefined }),
});

const snapshots = createRoute({ getParentRoute: () => root, path: "/snapshots", component: late(() => import("./pages/snapshots.js").then((page) => page.SnapshotsPage)) });

const host = createRoute({ getParentRoute: () => root, path: "/host", component: late(() => import("./pages/host.js").then((page) => page.HostPage)) });

export const router = createRouter({ routeTree: root.addChildren([sessions, all, session, images, snapshots, workspaces, secrets, usage, users, audit, host]), defaultPreload: "intent", defaultErrorComponent: Failed, defaultPendingComponent: Skeleton });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
