/**
 * Imports a user's module (TypeScript or JavaScript) and reads it. A call after a change returns
 * fresh code for the module and its local imports. What an earlier load returned stays valid, and
 * stays in memory: reloading is meant for development, where a restart is never far.
 *
 * The shape is checked by `readModule`, specifiers are resolved by `moduleHooks`, and files are
 * watched by `watchModule`.
 */
import { existsSync, statSync } from "node:fs";
import * as nodeModule from "node:module";
import { dirname, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { register as registerTsx } from "tsx/esm/api";
import { explainImportError } from "./explainImportError.ts";
import { locateSyntaxError } from "./locateSyntaxError.ts";
import { ModuleError, type LoadedModule } from "./LoadedModule.ts";
import {
  synchronousHooks,
  type HookData,
  type HookMessage,
  type HookOptions,
  type SynchronousHooks,
} from "./moduleHooks.ts";
import { agentClassOf, readModule } from "./readModule.ts";
import { readWrangler, WranglerUnreadable } from "../wrangler/readWrangler.ts";
import type { WranglerConfig } from "../wrangler/WranglerConfig.ts";

/** `path` is absolute or relative to the working directory. Rejects with `ModuleError`. */
export async function loadModule(path: string): Promise<LoadedModule> {
  const file = resolve(path);
  if (!existsSync(file))
    throw new ModuleError({
      file,
      files: [file],
      message: `${file}: no such file. Give the path of the module that exports your agents`,
    });
  if (statSync(file).isDirectory())
    throw new ModuleError({
      file,
      files: [file],
      message: `${file} is a folder. Give the module itself, for example ${path.replace(/\/$/, "")}/server.ts`,
    });
  const wrangler = wranglerOf(file);
  loader ??= startLoader();
  const { load, exports, files, error } = await loader.import(file);
  if (error !== undefined) {
    const place = error instanceof SyntaxError ? locateSyntaxError(files) : undefined;
    throw new ModuleError({
      file,
      files: [...files, ...missingFile(error)],
      message:
        place === undefined
          ? explainImportError(error, file, load)
          : `syntax error\n  ${place.replaceAll("\n", "\n  ")}`,
      cause: error,
    });
  }
  const watched = wrangler === undefined ? files : [...files, wrangler.file];
  const read = readModule(exports, file, watched);
  return { ...read, wrangler: wrangler && withClassNames(wrangler, exports, read.agents) };
}

/** A binding names an export; its class may have another name. */
function withClassNames(
  wrangler: WranglerConfig,
  exports: Readonly<Record<string, unknown>>,
  agents: LoadedModule["agents"],
): WranglerConfig {
  const names = new Map([...agents].map(([name, agent]) => [agent, name]));
  const nameOf = (exported: string): string => {
    const agent = agentClassOf(exports[exported]);
    return (agent && names.get(agent)) ?? exported;
  };
  const bindings = [...wrangler.bindings].map(
    ([name, exported]) => [name, nameOf(exported)] as const,
  );
  return { ...wrangler, bindings: new Map(bindings) };
}

/** Throws `ModuleError`: the file is part of what the module says of itself. */
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
  readonly load: number;
  readonly exports: Readonly<Record<string, unknown>>;
  readonly files: ReadonlyArray<string>;
  /** What the import threw; undefined when it succeeded. */
  readonly error: unknown;
}

interface Loader {
  readonly import: (file: string) => Promise<Imported>;
}

/** Module hooks belong to the process and can't be removed; hence one loader for its whole life. */
let loader: Loader | undefined;

function startLoader(): Loader {
  registerTsx();
  const files = new Map<number, string[]>();
  const hooks = useHooks((file, load) => files.get(load)?.push(fileURLToPath(file)));
  let loads = 0;
  return {
    import: async (file) => {
      const load = ++loads;
      files.set(load, []);
      let exports: Readonly<Record<string, unknown>> = {};
      let error: unknown;
      try {
        exports = await import(`${pathToFileURL(file).href}?agents-load=${load}`);
      } catch (thrown) {
        error = thrown ?? new Error("the module threw undefined");
      }
      await hooks.reported(load);
      const seen = new Set([file, ...(files.get(load) ?? [])]);
      files.delete(load);
      return { load, exports, files: [...seen], error };
    },
  };
}

interface Hooks {
  /** Resolves when every file of the load has been reported. */
  readonly reported: (load: number) => Promise<void>;
}

/** `report` receives the URL of each file of a load. */
function useHooks(report: (file: string, load: number) => void): Hooks {
  const options: HookOptions = { selfUrl: import.meta.url, aliases: {} };
  const { registerHooks } = nodeModule as {
    readonly registerHooks?: (hooks: SynchronousHooks) => unknown;
  };
  if (registerHooks !== undefined) {
    registerHooks(synchronousHooks(options, report));
    return { reported: async () => undefined };
  }
  const { port1, port2 } = new MessageChannel();
  const inSource = import.meta.url.endsWith(".ts");
  nodeModule.register(inSource ? "./moduleHooks.ts" : "./moduleHooks.js", import.meta.url, {
    data: { ...options, port: port2 } satisfies HookData,
    transferList: [port2],
  });
  const waiting = new Map<number, () => void>();
  port1.on("message", (message: HookMessage) => {
    if ("pong" in message) waiting.get(message.pong)?.();
    else report(message.file, message.load);
  });
  port1.unref();
  return { reported: (load) => pong(port1, load, waiting) };
}

/**
 * Messages arrive in order: after the answer to this ping, every file of the load has been
 * reported.
 */
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
