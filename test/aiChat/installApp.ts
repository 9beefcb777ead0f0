/** The app's folder: `server.mjs` and the reference's packages from npm, in these releases. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cachedPackages } from "../kit/cachedPackages.ts";

const MANIFEST = {
  turnkeep: { agents: "installed" },
  dependencies: {
    "@cloudflare/ai-chat": "0.12.2",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/server": "2.4.0",
    agents: "0.32.0",
    ai: "6.0.326",
    react: "19.3.1",
    zod: "4.6.7",
  },
};
const SERVER = fileURLToPath(new URL("./server.mjs", import.meta.url));

/** The path of the module. */
export function installApp(): string {
  const module = join(cachedPackages("ai-chat", MANIFEST), "server.mjs");
  copyFileSync(SERVER, module);
  return module;
}
