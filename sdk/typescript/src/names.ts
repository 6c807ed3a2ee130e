/** Fields whose keys are the user's and are not to be renamed. */
const maps = new Set(["env", "labels", "limit_hits", "data", "file_paths"]);

/** fromWire names the fields of an answer as TypeScript does, at every depth. */
export function fromWire(value: unknown): unknown {
  return rename(value, (name) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()));
}

/** toWire names the fields of a request as the API does, at every depth. Fields that are undefined are left out. */
export function toWire(value: unknown): unknown {
  return rename(value, (name) => name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase()));
}

function rename(value: unknown, name: (name: string) => string): unknown {
  if (Array.isArray(value)) {
    return value.map((item) => rename(item, name));
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const renamed: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(value)) {
    if (field !== undefined) {
      renamed[name(key)] = maps.has(key) ? field : rename(field, name);
    }
  }
  return renamed;
}
