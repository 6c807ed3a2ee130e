/** A value that several parts of the page share, and that is no answer of the daemon. */
import { useSyncExternalStore } from "react";

export interface Store<T> {
  get: () => T;
  set: (next: T) => void;
  /** The value, in a component that is drawn again when it changes. */
  use: () => T;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const readers = new Set<() => void>();
  const subscribe = (reader: () => void) => {
    readers.add(reader);
    return () => readers.delete(reader);
  };
  const get = () => value;
  return {
    get,
    set: (next) => {
      value = next;
      readers.forEach((reader) => reader());
    },
    use: () => useSyncExternalStore(subscribe, get),
  };
}
