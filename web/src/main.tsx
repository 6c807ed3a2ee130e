import { APIError } from "@sandkasten/sdk";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./app.css";
import { router } from "./router.js";

/** again says whether a query is sent once more: not if the daemon has refused it, as over a quota. */
const again = (failed: number, error: unknown) => failed < 1 && !(error instanceof APIError && error.status < 500);

const queries = new QueryClient({ defaultOptions: { queries: { staleTime: 5_000, retry: again } } });

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
