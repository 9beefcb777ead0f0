/**
 * Secrets for development: a fresh clone has none, and no code may hold one. So `agents dev` (and
 * only it) makes up each secret that the module's verifiers name and nothing sets, and keeps it in
 * `<data>/dev-secrets.env` for the next start. A secret set anywhere else wins over it.
 */
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";

export const devSecretsPath = (dataFolder: string): string => join(dataFolder, "dev-secrets.env");

/** Names of the environment variables that the routes' verifiers read, each once. */
export const secretNames = (routes: ReadonlyArray<WebhookRoute>): ReadonlyArray<string> => [
  ...new Set(routes.flatMap((route) => route.verifier.secretNames ?? [])),
];

/** Makes up what is missing; returns those, by name. `id` gives at least 128 random bits. */
export function makeDevSecrets(
  dataFolder: string,
  names: ReadonlyArray<string>,
  env: Readonly<Record<string, unknown>>,
  id: () => string,
): Readonly<Record<string, string>> {
  const missing = names.filter((name) => env[name] === undefined);
  if (missing.length === 0) return {};
  // Base64 of one length whatever the id looks like: Standard Webhooks' secrets must be base64.
  const made = Object.fromEntries(
    missing.map((name) => [
      name,
      Buffer.from(id() + id())
        .toString("base64")
        .replace(/=+$/, "")
        .slice(0, 40),
    ]),
  );
  mkdirSync(dataFolder, { recursive: true });
  const lines = missing.map((name) => `${name}=${made[name]}\n`);
  appendFileSync(devSecretsPath(dataFolder), lines.join(""), { mode: 0o600 });
  return made;
}
