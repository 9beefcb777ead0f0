/**
 * What every serving command does before it starts: finds the module, reads its environment and
 * loads it. `serve` comes next. The options come from `options/servingOptions`.
 */
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { APPROVAL_SECRET } from "../../../core/approval/approvalLink.ts";
import { fillProcessEnv, loadEnv, type EnvOptions } from "../../env/loadEnv.ts";
import type { LoadedModule } from "../../module/LoadedModule.ts";
import type { WranglerConfig } from "../../wrangler/WranglerConfig.ts";
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

export interface PrepareOptions {
  readonly role: Role;
  /** As given on the command line. */
  readonly module: string | undefined;
  /** Absolute. */
  readonly dataFolder: string;
  /** Returns at least 128 random bits. */
  readonly newId: () => string;
}

export interface Prepared {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, string>>;
  /** The files that the environment was read from. */
  readonly envFiles: ReadonlyArray<string>;
  /**
   * Names of secrets that were generated for this folder, now or at an earlier start. Empty outside
   * `dev`.
   */
  readonly devSecrets: ReadonlyArray<string>;
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
  await findModule(terminal, options.module);
  mkdirSync(options.dataFolder, { recursive: true, mode: 0o700 });
  const begun = await joins.begin(options);
  try {
    return { begun, prepared: await prepare(terminal, options) };
  } catch (error) {
    await begun.abandon();
    throw error;
  }
}

/** Rejects with `CliError`, `ModuleError` or `EnvFileUnreadable`. Creates the data folder. */
async function prepare(terminal: Terminal, options: PrepareOptions): Promise<Prepared> {
  const file = await findModule(terminal, options.module);
  mkdirSync(options.dataFolder, { recursive: true, mode: 0o700 });
  const isDev = options.role === "dev";
  const { module, sources, loaded: before } = await loadWithEnv(terminal, file);
  const { unset, faults } = checkSecrets(module.webhooks, before.env);
  if ((isDev || options.role === "gateway") && faults.length > 0) throw failed(faults.join("\n"));
  if (!isDev) {
    const missing = unset.map((names) => names.join(" or "));
    if (options.role === "gateway" && missing.length > 0)
      throw failed(
        `${missing.join(", ")} not set, but ${shownPath(terminal.cwd, file)} verifies webhooks with ${missing.length === 1 ? "it" : "them"}. Set ${missing.length === 1 ? "it" : "them"} in the environment or in a .env file beside the module.`,
      );
    return { module, env: before.env, envFiles: before.files, devSecrets: [] };
  }
  const fallbackFiles = [devSecretsPath(options.dataFolder)];
  const known = loadEnv({ ...sources, fallbackFiles });
  const lacking = unset.flatMap((names) => names.slice(0, 1));
  const made = makeDevSecrets(
    options.dataFolder,
    [...lacking, APPROVAL_SECRET].filter((name) => known.env[name] === undefined),
    options.newId,
  );
  return {
    module,
    env: { ...made, ...known.env },
    envFiles: known.files,
    devSecrets: lacking,
  };
}

/**
 * Loads a module with the environment from its files and the process, which is also set as
 * `process.env`. Prints notes on settings of its configuration file that have no effect here.
 * Rejects with `ModuleError` or `EnvFileUnreadable`.
 */
export async function loadWithEnv(terminal: Terminal, file: string) {
  const folder = (await wranglerBeside(dirname(file)))?.file;
  const sources: EnvOptions = {
    module: file,
    cwd: terminal.cwd,
    processEnv: terminal.env,
    ...(folder === undefined ? {} : { folder: dirname(folder) }),
  };
  const loaded = loadEnv(sources);
  if (terminal.env === process.env) fillProcessEnv(loaded.env);
  // Imported here, because it imports the TypeScript compiler, which other commands do not need.
  const { loadModule } = await import("../../module/loadModule.ts");
  const module = await loadModule(file, loaded.env);
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
