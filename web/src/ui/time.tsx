import { useSyncExternalStore } from "react";

// One clock for all times on a page.
let now = Date.now();
const listeners = new Set<() => void>();
setInterval(() => {
  now = Date.now();
  for (const tell of listeners) tell();
}, 5000);

function subscribe(tell: () => void) {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

const units: [number, string][] = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

export function duration(seconds: number): string {
  const [size, name] = units.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${name}`;
}

/** How long ago something was; the time itself when it is pointed at. */
export function Ago({ at }: { at: string }) {
  const at_ms = Date.parse(at);
  const current = useSyncExternalStore(subscribe, () => now);
  const seconds = Math.max(0, Math.round((current - at_ms) / 1000));
  return (
    <time dateTime={at} title={new Date(at_ms).toLocaleString()}>
      {seconds < 5 ? "now" : duration(seconds)}
    </time>
  );
}
