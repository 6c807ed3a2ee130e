import { useAdmin } from "./api/me.js";

/** The pages that the console leads to from everywhere. The key leads there too, after g. */
const places = [
  { to: "/", name: "Sessions", key: "s" },
  { to: "/images", name: "Images", key: "i" },
  { to: "/snapshots", name: "Snapshots", key: "p" },
  { to: "/workspaces", name: "Workspaces", key: "w" },
  { to: "/secrets", name: "Secrets", key: "e" },
  { to: "/usage", name: "Usage", key: "u" },
  { to: "/users", name: "Users and keys", key: "k" },
  { to: "/audit", name: "Audit", key: "a" },
  { to: "/host", name: "Host", key: "h", forAdmins: true },
] as const;

/** The pages for who has signed in. */
export function usePlaces() {
  const admin = useAdmin();
  return places.filter((place) => admin || !("forAdmins" in place));
}
