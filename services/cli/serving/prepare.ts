/**
 * What every serving command does before it starts: finds the module, reads its environment and
 * loads it. `serve` comes next. The options come from `options/servingOptions`.
 */
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { APPROVAL_SECRET } from "../../../core/approval/approvalLink.ts";
import {
  envFilesOf,
  fillProcessEnv,
  loadEnv,
  readEnvFile,
  type EnvOptions,
  type LoadedEnv,
} from "../../env/loadEnv.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";
import { handlesMail } from "../../module/mailModule.ts";
import { makeFolder } from "../terminal/makeFolder.ts";
import { watchLoad } from "../../watchdog/watchLoad.ts";
import { reseedPlatform } from "../../platform/bindPlatform.ts";
import type { WranglerConfig } from "../../wrangler/WranglerConfig.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { Begun, Joins } from "../../wiring/Joins.ts";
import type { BrokerSettings, Role } from "../../wiring/ProcessSettings.ts";
import { failed, usage } from "../terminal/CliError.ts";
import { shownPath, type Terminal } from "../terminal/Terminal.ts";
import { devSecretsPath, makeDevSecrets, checkSecrets } from "./devSecrets.ts";

/** The usual places of a module. The first that exists is used if none is named. */
const MODULE_CANDIDATES = [
  "server.ts", "src/server.ts", "server.js", "src/server.js", "agents.ts", "src/agents.ts",
  "index.ts", "src/index.ts", "index.js", "src/index.js",
] as const; // prettier-ignore

/** Far longer than modules take to load, and shorter than people look for what is wrong. */
export const SLOW_LOAD_MS = 5_000;

interface PrepareOptions {
  readonly role: Role;
  /** As given on the command line. */
  readonly module: string | undefined;
  /** Absolute. */
  readonly dataFolder: string;
  /** `id` returns at least 128 random bits. */
  readonly time: Pick<TimeShape, "id" | "after">;
}

/** The environment of a module. */
interface PreparedEnv {
  readonly env: Readonly<Record<string, string>>;
  /** The files that the environment was read from. */
  readonly envFiles: ReadonlyArray<string>;
  /** Names of secrets generated for this folder, now or at an earlier start. Only in `dev`. */
  readonly devSecrets: ReadonlyArray<string>;
}

interface Prepared extends PreparedEnv {
  readonly module: LoadedModule;
  /**
   * Reads the files again and sets `process.env`, and `env` of `cloudflare:workers`, before the
   * module is loaded again. Throws `EnvFileUnreadable`.
   */
  readonly refreshEnv: () => void;
  /** The files that it reads, also those that do not exist. */
  readonly envFilesRead: ReadonlyArray<string>;
  /**
   * The environment of the module after a change: in `dev`, with secrets for the verifiers that are
   * new. Throws `CliError`.
   */
  readonly envOf: (module: LoadedModule) => PreparedEnv;
}

/**
 * Runs `Joins.begin` and then loads the module while the broker starts. Stops what was begun if the
 * module can't be loaded. Rejects with `CliError`, `ModuleError` or `EnvFileUnreadable`, or as
 * `Joins.begin` does.
 */
export async function beginAndPrepare(
  joins: Pick<Joins, "begin">,
  terminal: Terminal,
  options: PrepareOptions & BrokerSettings,
): Promise<{ readonly begun: Begun; readonly prepared: Prepared }> {
  // An error in the command line is reported before anything is started.
  const file = await findModule(terminal, options.module);
  makeFolder(options.dataFolder, 0o700);
  const begun = await joins.begin(options);
  try {
    return { begun, prepared: await prepare(terminal, file, options) };
  } catch (error) {
    await begun.abandon();
    throw error;
  }
}

/** Rejects with `CliError`, `ModuleError` or `EnvFileUnreadable`. */
async function prepare(
  terminal: Terminal,
  file: string,
  options: Pick<PrepareOptions, "role" | "dataFolder" | "time">,
): Promise<Prepared> {
  const isDev = options.role === "dev";
  const shown = shownPath(terminal.cwd, file);
  const { module, sources, loaded: before } = await loadWithEnv(terminal, options.time, file);
  const envFilesRead = envFilesOf(sources);
  let known = before;
  const refreshEnv = (): void => {
    const next = loadEnv(sources);
    if (terminal.env === process.env) fillProcessEnv(next.env, sources.processEnv, known.env);
    reseedPlatform(next.env, known.env);
    known = next;
  };
  if (isDev) {
    const envOf = (loaded: LoadedModule): PreparedEnv => devEnv(loaded, known, options);
    return { module, ...envOf(module), refreshEnv, envFilesRead, envOf };
  }
  // Every mail would be refused for good: a wrong module must not bounce a domain's mail.
  if (options.role === "mail" && !handlesMail(module))
    throw failed(
      `${shown} takes no mail: its default export has no email handler and no email routes.`,
    );
  const { unset, unsetUrls, faults } = checkSecrets(module, before.env);
  if (options.role === "gateway") {
    if (faults.length > 0) throw failed(faults.join("\n"));
    const missing = [...unset.map((names) => names.join(" or ")), ...unsetUrls];
    if (missing.length > 0)
      throw failed(
        `${missing.join(", ")} not set, but ${shown} verifies webhooks with ${missing.length === 1 ? "it" : "them"}. Set ${missing.length === 1 ? "it" : "them"} in the environment or in a .env file beside the module.`,
      );
  }
  const env = { env: before.env, envFiles: before.files, devSecrets: [] };
  return { module, ...env, refreshEnv, envFilesRead, envOf: () => env };
}

/** Generates the secrets that nothing sets. Throws `CliError`. */
function devEnv(
  module: LoadedModule,
  { env: set, files }: LoadedEnv,
  { dataFolder, time }: Pick<PrepareOptions, "dataFolder" | "time">,
): PreparedEnv {
  const { unset, faults } = checkSecrets(module, set);
  if (faults.length > 0) throw failed(faults.join("\n"));
  const env = { ...readEnvFile(devSecretsPath(dataFolder)), ...set };
  const devSecrets = unset.flatMap((names) => names.slice(0, 1));
  const made = makeDevSecrets(
    dataFolder,
    [...devSecrets, APPROVAL_SECRET].filter((name) => env[name] === undefined),
    time.id,
  );
  return { env: { ...made, ...env }, envFiles: files, devSecrets };
}

/**
 * Loads a module with the environment from its files and the process, which is also set as
 * `process.env`. Prints notes on settings of its configuration file that have no effect here, on
 * ignored lines of the files, and that the module takes long to load. Rejects with `ModuleError` or
 * `EnvFileUnreadable`.
 */
export async function loadWithEnv(
  terminal: Terminal,
  time: Pick<TimeShape, "after">,
  file: string,
): Promise<{
  readonly module: LoadedModule;
  readonly sources: EnvOptions;
  readonly loaded: LoadedEnv;
}> {
  const folder = (await wranglerBeside(dirname(file)))?.file;
  const sources: EnvOptions = {
    module: file,
    cwd: terminal.cwd,
    // What the files set in it must not pass for its own when they are read again.
    processEnv: { ...terminal.env },
    ...(folder === undefined ? {} : { folder: dirname(folder) }),
  };
  const loaded = loadEnv(sources);
  for (const { file: from, line } of loaded.ignored)
    terminal.err(`${shownPath(terminal.cwd, from)}:${line} is not NAME=value and is ignored`);
  if (terminal.env === process.env) fillProcessEnv(loaded.env);
  // Imported here, because it imports the TypeScript compiler, which other commands do not need.
  const { loadModule } = await import("../../module/loadModule.ts");
  const shown = shownPath(terminal.cwd, file);
  const cancel = time.after(SLOW_LOAD_MS, () =>
    terminal.err(
      `${shown} is still loading: does its top level await something that does not end?`,
    ),
  );
  const unwatch = watchLoad(shown, SLOW_LOAD_MS);
  const module = await loadModule(file, loaded.env).finally(() => {
    cancel();
    unwatch();
  });
  for (const note of module.wrangler?.notes ?? [])
    terminal.err(`${shownPath(terminal.cwd, module.wrangler!.file)}: ${note}`);
  return { module, sources, loaded };
}

async function wranglerBeside(folder: string): Promise<WranglerConfig | undefined> {
  const { readWrangler, WranglerUnreadable } = await import("../../wrangler/readWrangler.ts");
  try {
    return readWrangler(folder);
  } catch (error) {
    if (error instanceof WranglerUnreadable) throw failed(error.message);
    throw error;
  }
}

/**
 * Resolves to the absolute path of the module that is named, of `main` in the configuration file
 * here, or of a file in a usual place. Rejects with `CliError` if none is found.
 */
export async function findModule(
  terminal: Pick<Terminal, "cwd">,
  given: string | undefined,
): Promise<string> {
  if (given !== undefined) return resolve(terminal.cwd, given);
  const main = (await wranglerBeside(terminal.cwd))?.main;
  if (main !== undefined) return main;
  const found = MODULE_CANDIDATES.map((name) => join(terminal.cwd, name)).find(existsSync);
  if (found !== undefined) return found;
  throw usage(
    `No module was given and none was found here (looked for ${MODULE_CANDIDATES.join(", ")}). Specify the file that exports your agents: agents dev src/my-agents.ts`,
  );
}
