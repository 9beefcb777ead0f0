/**
 * Imports a user's module (TypeScript or JavaScript) and reads it. A call after a change returns
 * fresh code for the module and its local imports. The result of an earlier load stays valid and in
 * memory: reloading is meant for development, where processes do not run for long.
 *
 * The shape is checked by `readModule`, specifiers are resolved by `moduleHooks`, and files are
 * watched by `watchModule`. tsx is loaded only for a module that Node can't read by itself: any
 * TypeScript before Node 22.18; from then on decorators, enums, JSX and paths of a tsconfig.
 */
import { createHash } from "node:crypto";
import { existsSync, readFileSync, statSync } from "node:fs";
import * as nodeModule from "node:module";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { nearest } from "../../core/errors/nearest.ts";
import { explainImportError } from "./explainImportError.ts";
import { locateSyntaxError } from "./locateSyntaxError.ts";
import { usesInstalledAgents } from "./installedAgents.ts";
import { ModuleError, type LoadedModule } from "./LoadedModule.ts";
import {
  synchronousHooks,
  type HookData,
  type HookMessage,
  type HookOptions,
  type SynchronousHooks,
} from "./moduleHooks.ts";
import { agentClassOf, readModule } from "./readModule.ts";
import { ownFile, ownFolder } from "../ownPackage/ownFile.ts";
import { seedPlatform } from "../platform/bindPlatform.ts";
import { platformFiles } from "../platform/platformFiles.ts";
import { readWrangler, WranglerUnreadable } from "../wrangler/readWrangler.ts";
import type { WranglerConfig } from "../wrangler/WranglerConfig.ts";

/** Enough to distinguish the versions of one module. */
const VERSION_CHARS = 16;

/**
 * `path` is absolute or relative to the working directory. The module's top level reads `variables`
 * as `env` of `cloudflare:workers`; without them, it reads those of the previous load. Rejects with
 * `ModuleError`.
 */
export async function loadModule(
  path: string,
  variables?: Readonly<Record<string, string>>,
): Promise<LoadedModule> {
  const file = resolve(path);
  if (!existsSync(file))
    throw new ModuleError({
      file,
      files: [file],
      message: `${file}: no such file. Use the path of the module that exports your agents`,
    });
  if (statSync(file).isDirectory())
    throw new ModuleError({
      file,
      files: [file],
      message: `${file} is a folder. Use the module itself, for example ${path.replace(/\/$/, "")}/server.ts`,
    });
  const wrangler = wranglerOf(file);
  if (variables !== undefined) seedPlatform({ ...wrangler?.vars, ...variables });
  loader ??= makeLoader(usesInstalledAgents(file));
  const { exports, files, error } = await (await loader).import(file);
  if (error !== undefined) {
    const place = error instanceof SyntaxError ? locateSyntaxError(files) : undefined;
    throw new ModuleError({
      file,
      files: [...files, ...missingFile(error)],
      message:
        place === undefined
          ? explainImportError(error, file)
          : `syntax error\n  ${place.replaceAll("\n", "\n  ")}`,
      cause: error,
    });
  }
  const watched = wrangler === undefined ? files : [...files, wrangler.file];
  const read = readModule(exports, file, watched, wrangler?.objects);
  return {
    ...read,
    version: versionOf(files, dirname(file)),
    wrangler: wrangler && withClassNames(wrangler, exports, read.agents),
  };
}

/** Equal for the same code in another folder. A file that is gone counts by its name only. */
function versionOf(files: ReadonlyArray<string>, folder: string): string {
  const hash = createHash("sha256");
  for (const file of files.toSorted()) {
    hash.update(`${relative(folder, file)}\0`);
    if (existsSync(file)) hash.update(readFileSync(file));
  }
  return hash.digest("hex").slice(0, VERSION_CHARS);
}

/** A binding names an export; its class may have another name. */
function withClassNames(
  wrangler: WranglerConfig,
  exports: Readonly<Record<string, unknown>>,
  agents: LoadedModule["agents"],
): WranglerConfig {
  const names = new Map([...agents].map(([name, agent]) => [agent, name]));
  const nameOf = (exported: string): string => {
    const agent = agentClassOf(exports[exported], wrangler.objects.includes(exported));
    return (agent && names.get(agent)) ?? exported;
  };
  const bindings = [...wrangler.bindings].map(
    ([name, exported]) => [name, nameOf(exported)] as const,
  );
  const notes = bindings
    .filter(([, className]) => !agents.has(className))
    .map(([name, className]) => missingNote(name, className, agents));
  return { ...wrangler, bindings: new Map(bindings), notes: [...wrangler.notes, ...notes] };
}

function missingNote(name: string, className: string, agents: LoadedModule["agents"]): string {
  const meant = nearest(className, agents.keys());
  const hint = meant === undefined ? "" : `. Did you mean "${meant}"?`;
  return `the binding ${name} names the class "${className}", which the module does not export${hint}`;
}

/** Throws `ModuleError`, since the file is a part of the module's configuration. */
function wranglerOf(file: string): WranglerConfig | undefined {
  try {
    return readWrangler(dirname(file));
  } catch (error) {
    if (!(error instanceof WranglerUnreadable)) throw error;
    throw new ModuleError({
      file,
      files: [file, error.file],
      message: error.message,
      cause: error,
    });
  }
}

interface Imported {
  readonly exports: Readonly<Record<string, unknown>>;
  readonly files: ReadonlyArray<string>;
  /** The import's error; undefined if it succeeded. */
  readonly error: unknown;
}

interface Loader {
  readonly import: (file: string) => Promise<Imported>;
  /** Files of loads that have not ended, as far as they are known. */
  readonly unfinished: () => ReadonlyArray<string>;
}

/** Module hooks belong to the process and can't be removed, so that it has one loader. */
let loader: Promise<Loader> | undefined;

/** Files of modules whose loading has begun and not ended. */
export const filesBeingLoaded = async (): Promise<ReadonlyArray<string>> =>
  (await loader)?.unfinished() ?? [];

async function makeLoader(ownAgents: boolean): Promise<Loader> {
  if (ownAgents) await addPlatformGlobals();
  return startLoader(ownAgents);
}

/** Globals of the reference's platform that its package uses and an older Node lacks. */
async function addPlatformGlobals(): Promise<void> {
  const add = (name: string, value: unknown): unknown =>
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  // Node has it from version 22. The package reads its constants while it loads.
  if (!("WebSocket" in globalThis)) add("WebSocket", (await import("ws")).WebSocket);
  // Node has it from version 24. The package's MCP servers match their routes with it.
  if (!("URLPattern" in globalThis))
    add("URLPattern", (await import("urlpattern-polyfill/urlpattern")).URLPattern);
}

function startLoader(ownAgents: boolean): Loader {
  const files = new Map<number, string[]>();
  const report = (file: string, load: number): unknown =>
    files.get(load)?.push(fileURLToPath(file));
  let hooks = useHooks(report, { transforms: false, ownAgents });
  let transforms = false;
  let loads = 0;
  const transform = async (file: string): Promise<void> => {
    transforms = true;
    hooks.end();
    const { register } = await import("tsx/esm/api");
    try {
      register(tsconfigOf(file));
    } catch {
      // What it extends is not installed, as in a container without development packages.
      register();
    }
    hooks = useHooks(report, { transforms: true, ownAgents });
  };
  const load = async (file: string): Promise<Imported> => {
    const number = ++loads;
    files.set(number, []);
    let exports: Readonly<Record<string, unknown>> = {};
    let error: unknown;
    try {
      exports = await import(`${pathToFileURL(file).href}?agents-load=${number}`);
    } catch (thrown) {
      error = thrown ?? new Error("the module threw undefined");
    }
    await hooks.reported(number);
    const seen = new Set([file, ...(files.get(number) ?? [])]);
    files.delete(number);
    return { exports, files: [...seen], error };
  };
  return {
    import: async (file) => {
      if (!transforms && !nodeReads(file)) await transform(file);
      const imported = await load(file);
      if (transforms || !mayNeedTransform(imported.error)) return imported;
      await transform(file);
      return load(file);
    },
    unfinished: () => [...files.values()].flat(),
  };
}

/** That of the nearest folder. By itself, tsx reads only the one of the working folder. */
function tsconfigOf(file: string): { readonly tsconfig?: string } {
  const folder = dirname(file);
  const tsconfig = join(folder, "tsconfig.json");
  if (existsSync(tsconfig)) return { tsconfig };
  return folder === dirname(folder) ? {} : tsconfigOf(folder);
}

/** Whether Node itself can read a file with this name. */
const nodeReads = (file: string): boolean =>
  /\.m?js$/.test(file) ||
  (/\.m?ts$/.test(file) &&
    Boolean((process.features as { readonly typescript?: unknown }).typescript));

/**
 * Errors before the first line of the module's code runs, so that loading it again repeats nothing:
 * syntax that Node does not know, an import of a type as a value, a file that only tsx resolves or
 * reads, such as JSON without an attribute.
 */
const mayNeedTransform = (error: unknown): boolean =>
  error instanceof SyntaxError ||
  [
    "ERR_MODULE_NOT_FOUND",
    "ERR_IMPORT_ATTRIBUTE_MISSING",
    "ERR_UNSUPPORTED_DIR_IMPORT",
    "ERR_UNKNOWN_FILE_EXTENSION",
    "ERR_UNKNOWN_MODULE_FORMAT",
    "ERR_INVALID_TYPESCRIPT_SYNTAX",
    "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  ].includes(String((error as { readonly code?: unknown } | undefined)?.code));

interface Hooks {
  /** Resolves when every file of the load has been reported. */
  readonly reported: (load: number) => Promise<void>;
  /** Removes the hooks if Node can. Otherwise they stay, after the hooks that are added next. */
  readonly end: () => void;
}

/** By major version: the first release whose hooks mix. tsx uses synchronous ones from it on. */
const HOOKS_MIX: Readonly<Record<string, readonly [minor: number, patch: number]>> = {
  22: [22, 3],
  24: [11, 1],
  25: [1, 0],
};

/**
 * Whether a `version` such as `22.22.3` takes synchronous hooks beside those of the loader thread,
 * which tsx or a tracer registers. Before, such a process imports no CommonJS package.
 */
export function hooksMix(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  const first = HOOKS_MIX[major];
  if (first === undefined) return major >= 26;
  return minor > first[0] || (minor === first[0] && patch >= first[1]);
}

/** `report` receives the URL of each file of a load. */
function useHooks(
  report: (file: string, load: number) => void,
  given: Pick<HookOptions, "transforms" | "ownAgents">,
): Hooks {
  const options: HookOptions = {
    selfUrl: import.meta.url,
    ownFolder,
    aliases: Object.fromEntries(platformFiles()),
    ...given,
  };
  const { registerHooks } = nodeModule as {
    readonly registerHooks?: (hooks: SynchronousHooks) => { readonly deregister: () => void };
  };
  if (registerHooks !== undefined && hooksMix(process.versions.node)) {
    const registered = registerHooks(synchronousHooks(options, report));
    return { reported: async () => undefined, end: () => registered.deregister() };
  }
  const { port1, port2 } = new MessageChannel();
  nodeModule.register(ownFile("services/module/moduleHooks"), {
    data: { ...options, port: port2 } satisfies HookData,
    transferList: [port2],
  });
  const waiting = new Map<number, () => void>();
  port1.on("message", (message: HookMessage) => {
    if ("pong" in message) waiting.get(message.pong)?.();
    else report(message.file, message.load);
  });
  port1.unref();
  return { reported: (load) => pong(port1, load, waiting), end: () => undefined };
}

/** Messages arrive in order: each file of the load is reported before the answer to this ping. */
async function pong(
  port: MessagePort,
  load: number,
  waiting: Map<number, () => void>,
): Promise<void> {
  port.ref();
  await new Promise<void>((done) => {
    waiting.set(load, done);
    port.postMessage(load);
  });
  waiting.delete(load);
  if (waiting.size === 0) port.unref();
}

/** The local file that an import did not find. Creating it is the likely repair. */
function missingFile(error: unknown): ReadonlyArray<string> {
  const found = /^Cannot find module '(\/[^']+)'/.exec(error instanceof Error ? error.message : "");
  return found?.[1] === undefined ? [] : [found[1]];
}
