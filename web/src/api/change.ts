import { useQueryClient, type QueryKey } from "@tanstack/react-query";
import { useState } from "react";

/** useChange gives what changes something and then lists again what keys name, and the problem that the last change had. */
export function useChange(...keys: QueryKey[]): { problem: unknown; change: (act: () => Promise<unknown>) => Promise<void> } {
  const cache = useQueryClient();
  const [problem, setProblem] = useState<unknown>();
  const change = async (act: () => Promise<unknown>) => {
    setProblem(undefined);
    await act().catch(setProblem);
    await Promise.all(keys.map((queryKey) => cache.invalidateQueries({ queryKey })));
  };
  return { problem, change };
}
