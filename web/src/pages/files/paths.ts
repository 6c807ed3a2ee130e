/** The paths of a session's files as the API takes them: "." is the workspace. */
export const join = (dir: string, name: string) => (dir === "." ? name : dir === "/" ? `/${name}` : `${dir}/${name}`);

export function parent(path: string): string {
  const at = path.lastIndexOf("/");
  return at < 0 ? "." : at === 0 ? "/" : path.slice(0, at);
}

/** isBelow is also true of the directory itself. */
export const isBelow = (path: string, dir: string) => path === dir || path.startsWith(`${dir}/`);

/** Addresses that a link can have: the browser saves what comes, piece by piece. */
export const rawURL = (id: string, path: string) => `/v1/sessions/${id}/fs/read?raw=1&path=${encodeURIComponent(path)}`;
/** The file as a page that can do nothing, for a frame. */
export const pageURL = (id: string, path: string) => `/v1/sessions/${id}/fs/read?as=page&path=${encodeURIComponent(path)}`;
export const tarURL = (id: string, path: string) => `/v1/sessions/${id}/fs/archive?format=tar&path=${encodeURIComponent(path)}`;
