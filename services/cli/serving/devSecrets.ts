/**
 * Secrets for development. A fresh clone has none, and no code may contain one. `agents dev`, and
 * no other command, therefore generates each secret that the module's verifiers name and nothing
 * sets. It stores them in `<data>/dev-secrets.env` for the next start. A secret that is set
 * anywhere else overrides it.
 */
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { SecretsCheck } from "../../../core/webhook/WebhookRoute.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";

export const devSecretsPath = (dataFolder: string): string => join(dataFolder, "dev-secrets.env");

/**
 * Finds the secrets and URLs of a module's verifiers that neither the variables of the environment
 * nor those of its configuration file set. Each of `faults` begins with the route's path.
 */
export function checkSecrets(
  { webhooks, wrangler }: Pick<LoadedModule, "webhooks" | "wrangler">,
  variables: Readonly<Record<string, unknown>>,
): Required<SecretsCheck> {
  const env = { ...wrangler?.vars, ...variables };
  const unset = new Map<string, ReadonlyArray<string>>();
  const unsetUrls = new Set<string>();
  const faults: string[] = [];
  for (const { path, verifier } of webhooks) {
    const check: SecretsCheck = verifier.checkSecrets?.(env) ?? {
      unset: (verifier.secretNames ?? [])
        .filter((name) => env[name] === undefined)
        .map((name) => [name]),
      faults: [],
    };
    for (const names of check.unset) unset.set(names.join(), names);
    for (const name of check.unsetUrls ?? []) unsetUrls.add(name);
    faults.push(...check.faults.map((fault) => `${path}: ${fault}`));
  }
  return { unset: [...unset.values()], unsetUrls: [...unsetUrls], faults };
}

/** Makes secrets with these names, stores and returns them. `id`: 128 random bits or more. */
export function makeDevSecrets(
  dataFolder: string,
  missing: ReadonlyArray<string>,
  id: () => string,
): Readonly<Record<string, string>> {
  if (missing.length === 0) return {};
  // Base64 of a fixed length, for any format of the id: secrets of Standard Webhooks must be
  // base64.
  const made = Object.fromEntries(
    missing.map((name) => [
      name,
      Buffer.from(id() + id())
        .toString("base64")
        .replace(/=+$/, "")
        .slice(0, 40),
    ]),
  );
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const lines = missing.map((name) => `${name}=${made[name]}\n`);
  appendFileSync(devSecretsPath(dataFolder), lines.join(""), { mode: 0o600 });
  return made;
}
