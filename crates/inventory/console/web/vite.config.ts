import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vitest/config";

/// The words of React Aria exist in 34 languages; the console speaks one. The others become empty tables.
function englishOnly(): Plugin {
  const table = /react-(aria|stately|aria-components)\/dist\/private\/intl\/.*\/(?!en-US)[a-z]{2}-[A-Z]{2}\.m?js$/;
  return {
    name: "english-only",
    enforce: "pre",
    load: (id) => (table.test(id) ? "export default {};" : null),
  };
}

export default defineConfig({
  plugins: [englishOnly(), react()],
  build: {
    target: "es2023",
    // The folder is committed empty so that cargo watches it: scripts/pack.mjs puts its marker back.
    outDir: "dist",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  server: { port: 4181, proxy: { "/api": "http://127.0.0.1:4180", "/health": "http://127.0.0.1:4180" } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
