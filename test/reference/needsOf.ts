/**
 * What a server needs that this package does not have, by its configuration and its manifest: the
 * platform's bindings, and packages for chat, think, voice and payments. Servers that need nothing
 * of these must all load.
 */
import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { nearestManifest } from "../../services/module/installedAgents.ts";
import { readWrangler } from "../../services/wrangler/readWrangler.ts";
import type { ExampleServer } from "./exampleServers.ts";

/** By the beginning of a dependency's name. */
const PACKAGES: ReadonlyArray<readonly [begin: string, need: string]> = [
  ["@cloudflare/ai-chat", "chat"],
  ["@cloudflare/think", "think"],
  ["@cloudflare/voice", "voice"],
  ["@x402/", "payments"],
];
/** As `readWrangler` notes it. */
const MISSING_BINDING = /^"(\w+)" is not available here/;

/** In a fixed order: packages, then bindings as code. */
export function needsOf({ module }: Pick<ExampleServer, "module">): ReadonlyArray<string> {
  const manifest = nearestManifest(dirname(module));
  const { dependencies = {}, devDependencies = {} } = (
    manifest === undefined ? {} : JSON.parse(readFileSync(manifest, "utf8"))
  ) as Readonly<Record<string, Readonly<Record<string, string>>>>;
  const names = Object.keys({ ...dependencies, ...devDependencies });
  const packages = PACKAGES.filter(([begin]) => names.some((name) => name.startsWith(begin)));
  const bindings = (readWrangler(dirname(module))?.notes ?? []).flatMap(
    (note) => MISSING_BINDING.exec(note)?.[1] ?? [],
  );
  return [...packages.map(([, need]) => need), ...bindings.map((binding) => `\`${binding}\``)];
}
