import { useSyncExternalStore } from "react";

// As Tailwind's md.
const wide = matchMedia("(min-width: 768px)");

const subscribe = (tell: () => void) => {
  wide.addEventListener("change", tell);
  return () => wide.removeEventListener("change", tell);
};

/** useWide says whether the screen is wide enough for a table with all its columns. */
export const useWide = () => useSyncExternalStore(subscribe, () => wide.matches);
