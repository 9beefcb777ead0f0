/**
 * Runs something while a server's `package.json` keeps `agents` for the package that the checkout
 * has installed (`services/module/installedAgents.ts`). The file is put back afterwards: runs with
 * and without it use one checkout.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { nearestManifest } from "../../services/module/installedAgents.ts";
import type { ExampleServer } from "./exampleServers.ts";

export async function withInstalledAgents<A>(
  { module, name }: ExampleServer,
  run: () => Promise<A>,
): Promise<A> {
  const file = nearestManifest(dirname(module));
  if (file === undefined) throw new Error(`${name} has no package.json to set "turnkeep" in`);
  const text = readFileSync(file, "utf8");
  const manifest = { ...(JSON.parse(text) as object), turnkeep: { agents: "installed" } };
  writeFileSync(file, JSON.stringify(manifest));
  try {
    return await run();
  } finally {
    writeFileSync(file, text);
  }
}
