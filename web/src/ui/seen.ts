import { useEffect, useState } from "react";

/** How long a page is hidden before what it reads without end is given up: many leave a tab for a moment. */
const leftMs = 10_000;

/** useSeen says whether the page is seen, or was until just now. */
export function useSeen(): boolean {
  const [seen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => setSeen(false), leftMs);
      else setSeen(true);
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return seen;
}
