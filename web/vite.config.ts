import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

// Where the daemon is while the page is developed.
const daemon = process.env.SANDKASTEN_URL ?? "http://127.0.0.1:8787";

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@sandkasten/sdk": fileURLToPath(new URL("../sdk/typescript/src/index.ts", import.meta.url)) } },
  build: {
    target: "es2022",
    // The daemon's policy refuses inline scripts, and data: in style sheets.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 600,
  },
  server: {
    proxy: Object.fromEntries(["/v1", "/api", "/docs", "/openapi.json", "/mcp"].map((path) => [path, { target: daemon, ws: true }])),
  },
});
