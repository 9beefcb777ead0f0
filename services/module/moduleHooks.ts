/**
 * Node's module hooks for a user's module; runs in the loader thread, registered by `loadModule`
 * after tsx's hooks, so it is asked first.
 *
 * 1. `agents` and `agents/*` are the running copy of this package, whoever imports them: a lone file
 *    without `node_modules` works, and there is never a second `Agent` beside the engine's.
 * 2. Every local file of a load carries the load's number in its URL (`?agents-load=3`), so the next
 *    load gets fresh code; `node_modules` are shared between loads.
 * 3. Each such file is reported to the main thread: that is what there is to watch.
 * 4. All of them are ES modules that tsx transforms, whatever a `package.json` says or lacks; so a
 *    syntax error names its file and line, and standard decorators work.
 */
import type { InitializeHook, LoadHook, ResolveHook } from "node:module";
import { fileURLToPath } from "node:url";
import type { MessagePort } from "node:worker_threads";

export interface HookData {
  readonly port: MessagePort;
  /** A file of this package: what `agents` is resolved from. */
  readonly selfUrl: string;
  /** Further specifiers and the URLs they stand for. */
  readonly aliases: Readonly<Record<string, string>>;
}

/** From the loader thread: a file was loaded, or everything before ping `n` has been reported. */
export type HookMessage =
  { readonly file: string; readonly load: number } | { readonly pong: number };

const LOAD = /[?&]agents-load=(\d+)/;
const PACKAGE = /^agents(?:\/|$)/;
const SOURCE = /\.(?:[cm]?ts|tsx|jsx|m?js)$/;
/** What tsx appends to the URL of a file that it takes for CommonJS. */
const TSX_MARKS = /(?:%3Ftsx-[^?]*)?(?:\?.*)?$/;

let data: HookData | undefined;

export const initialize: InitializeHook<HookData> = (given) => {
  data = given;
  data.port.on("message", (ping: number) => data?.port.postMessage({ pong: ping }));
  data.port.unref();
};

export const resolve: ResolveHook = async (specifier, context, next) => {
  const alias = data?.aliases[specifier];
  if (alias !== undefined) return { url: alias, shortCircuit: true };
  if (PACKAGE.test(specifier)) {
    // Taken now: Node writes what `next` is given into the context itself.
    const { parentURL } = context;
    try {
      return await next(specifier, { ...context, parentURL: data?.selfUrl ?? parentURL });
    } catch (error) {
      throw importedFrom(error, specifier, parentURL);
    }
  }
  // The module itself: the very file, also where tsx would prefer a `.ts` beside a `.js`.
  const entry = LOAD.exec(specifier)?.[1];
  if (entry !== undefined) return { ...tagged(specifier, entry), shortCircuit: true };
  const load = LOAD.exec(context.parentURL ?? "")?.[1];
  const resolved = await next(specifier, context);
  if (load === undefined || !resolved.url.startsWith("file:")) return resolved;
  const bare = resolved.url.replace(TSX_MARKS, "");
  if (bare.includes("/node_modules/") || !SOURCE.test(bare)) return resolved;
  return { ...resolved, ...tagged(bare, load) };
};

/** Node would name this package's file as the importer of an entry that there is not; the user's is meant. */
function importedFrom(error: unknown, specifier: string, parentUrl: string | undefined): unknown {
  const code = (error as { readonly code?: unknown }).code;
  if (code !== "ERR_PACKAGE_PATH_NOT_EXPORTED" || !parentUrl?.startsWith("file:")) return error;
  const path = specifier.replace(PACKAGE, "./");
  const from = fileURLToPath(parentUrl.replace(TSX_MARKS, ""));
  const message = `Package subpath '${path}' is not defined by "exports" imported from ${from}`;
  return Object.assign(new Error(message), { code });
}

function tagged(url: string, load: string): { readonly url: string; readonly format: "module" } {
  // `module-typescript` is tsx's to transform; Node's types do not list it.
  const format = "module-typescript" as "module";
  return { url: `${url.replace(TSX_MARKS, "")}?agents-load=${load}`, format };
}

export const load: LoadHook = (url, context, next) => {
  const number = LOAD.exec(url)?.[1];
  if (number !== undefined)
    data?.port.postMessage({ file: url.replace(TSX_MARKS, ""), load: Number(number) });
  return next(url, context);
};
