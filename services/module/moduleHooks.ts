/**
 * Node's module hooks for a user's module. `loadModule` registers them after tsx's hooks, so that
 * they run first. Where Node's synchronous hooks suffice (`hooksMix`), tsx uses those, which run
 * before all hooks of the loader thread; these hooks are then synchronous too, in the main thread.
 * Elsewhere, as on Node 20, both run in the loader thread.
 *
 * 1. `turnkeep`, `agents` and their entries resolve to the running copy of this package, whoever
 *    imports them. A file without `node_modules` therefore works, and there is never a second
 *    `Agent` class. An app may import `agents` from its installed package instead (`ownAgents`).
 * 2. Every local file of a load has the load's number in its URL (`?agents-load=3`), so that the
 *    next load gets fresh code. Loads share `node_modules`.
 * 3. Each such file is reported to the main thread: these are the files to watch.
 * 4. All of them are ES modules, whatever a `package.json` says. Node reads them itself, or tsx
 *    transforms them, as `loadModule` decides once for the process.
 * 5. `cloudflare:workers`, `cloudflare:workflows` and `cloudflare:email` are this package's own
 *    (`services/platform`); any other module of that platform is an error that names it
 *    (`NO_PLATFORM_MODULE`).
 * 6. The optional peers (`PEER`) that this package's entries import resolve as in the user's
 *    module, so that a server that the module creates has the class that the entry checks for.
 * 7. A text file (`textFile`) is a module whose default export is its text.
 * 8. ES modules of this package's build do not pass tsx, which would make source maps of them.
 */
import type {
  InitializeHook,
  LoadHook,
  ResolveFnOutput,
  ResolveHook,
  LoadFnOutput,
  LoadHookContext,
  ResolveHookContext,
} from "node:module";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isTextFile, textModule } from "./textFile.ts";
import type { MessagePort } from "node:worker_threads";

/** For the hooks of the loader thread. */
export interface HookData extends HookOptions {
  readonly port: MessagePort;
}

export interface HookOptions {
  /** A file of this package, from which `agents` is resolved. */
  readonly selfUrl: string;
  /** Where this package's code is. */
  readonly ownFolder: string;
  /** Further specifiers and the URLs that they resolve to. */
  readonly aliases: Readonly<Record<string, string>>;
  /** Whether tsx transforms the files, including JavaScript. */
  readonly transforms: boolean;
  /** Whether `agents` is the package that importers have installed (`installedAgents`). */
  readonly ownAgents: boolean;
}

/** From the loader thread: a file was loaded, or everything before ping `n` has been reported. */
export type HookMessage =
  { readonly file: string; readonly load: number } | { readonly pong: number };

const LOAD = /[?&]agents-load=(\d+)/;
const PACKAGE = /^(?:turnkeep|agents)(?=\/|$)/;
const PEER = /^@modelcontextprotocol\/(?:sdk|server)(?=\/|$)/;
const SOURCE = /\.(?:[cm]?ts|tsx|jsx|m?js)$/;
/** The error for importing a module of the reference's platform that does not exist here. */
export const NO_PLATFORM_MODULE =
  /^There is no module '(cloudflare:[^']+)'(?: imported from (.+))?$/;
/** What tsx appends to the URL of a file that it treats as CommonJS. */
const TSX_MARKS = /(?:%3Ftsx-[^?]*)?(?:\?.*)?$/;

let options: HookOptions | undefined;
/** The module of the latest load. */
let entryUrl: string | undefined;
let report: (file: string, number: number) => void = () => undefined;

/** In the loader thread: files are reported through the port, each ping is answered after them. */
export const initialize: InitializeHook<HookData> = (given) => {
  const { port } = given;
  const tell = (message: HookMessage): void => port.postMessage(message);
  options = given;
  report = (file, number) => tell({ file, load: number });
  port.on("message", (ping: number) => tell({ pong: ping }));
  port.unref();
};

export const resolve: ResolveHook = async (specifier, context, next) => {
  const question = ask(specifier, context);
  if ("answer" in question) return question.answer;
  try {
    return settle(await next(question.specifier, question.context), question);
  } catch (error) {
    if (question.isPeer) return next(specifier, context);
    throw question.own ? importedFrom(error, specifier, question.parentUrl) : error;
  }
};

export const load: LoadHook = (url, context, next) => {
  note(url);
  return textLoaded(url) ?? builtLoaded(url) ?? next(url, context);
};

/** The argument of `registerHooks`, which the types of Node 20 don't declare. */
export interface SynchronousHooks {
  readonly resolve: (
    specifier: string,
    context: ResolveHookContext,
    next: (specifier: string, context: ResolveHookContext) => ResolveFnOutput,
  ) => ResolveFnOutput;
  readonly load: (
    url: string,
    context: LoadHookContext,
    next: (url: string, context: LoadHookContext) => LoadFnOutput,
  ) => LoadFnOutput;
}

/** The same hooks in the main thread, for `registerHooks` of `node:module`. */
export function synchronousHooks(given: HookOptions, reported: typeof report): SynchronousHooks {
  options = given;
  report = reported;
  return {
    resolve: (specifier, context, next) => {
      const question = ask(specifier, context);
      if ("answer" in question) return question.answer;
      try {
        return settle(next(question.specifier, question.context), question);
      } catch (error) {
        if (question.isPeer) return next(specifier, context);
        throw question.own ? importedFrom(error, specifier, question.parentUrl) : error;
      }
    },
    load: (url, context, next) => {
      note(url);
      return textLoaded(url) ?? builtLoaded(url) ?? next(url, context);
    },
  };
}

interface Question {
  readonly specifier: string;
  readonly context: ResolveHookContext;
  /** True for a file of this package. */
  readonly own: boolean;
  /** Rule 6: resolved from the user's module, or from this package if that fails. */
  readonly isPeer?: boolean;
  /** The importer, read before the other hooks run: Node changes the context that they receive. */
  readonly parentUrl: string | undefined;
}

/** Returns the answer if these hooks decide, or else what to ask the next hooks. */
function ask(
  specifier: string,
  context: ResolveHookContext,
): Question | { readonly answer: ResolveFnOutput } {
  const { parentURL: parentUrl } = context;
  // A file of this package as the importer, since hooks of an older load would treat another one as
  // the user's.
  const ownContext = { ...context, parentURL: options?.selfUrl ?? parentUrl };
  const alias = options?.aliases[specifier];
  if (alias !== undefined) return { specifier: alias, context: ownContext, own: true, parentUrl };
  if (specifier.startsWith("cloudflare:")) throw noPlatformModule(specifier, parentUrl);
  if (PACKAGE.test(specifier) && !(options?.ownAgents === true && specifier.startsWith("agents")))
    return {
      specifier: specifier.replace(PACKAGE, "turnkeep"),
      context: ownContext,
      own: true,
      parentUrl,
    };
  if (PEER.test(specifier) && entryUrl !== undefined && isOwnFile(parentUrl))
    return { specifier, context: { ...context, parentURL: entryUrl }, own: true, isPeer: true, parentUrl }; // prettier-ignore
  if (isRelative(specifier) && isBuilt(parentUrl))
    return { answer: { url: new URL(specifier, parentUrl).href, shortCircuit: true } };
  // The module itself is this very file, even if tsx would prefer a `.ts` beside a `.js`.
  const entry = LOAD.exec(specifier)?.[1];
  if (entry !== undefined) entryUrl = specifier.replace(TSX_MARKS, "");
  if (entry !== undefined) return { answer: { ...tagged(specifier, entry), shortCircuit: true } };
  return { specifier, context, own: false, parentUrl };
}

const isOwnFile = (url: string | undefined): url is string =>
  options !== undefined && url?.startsWith(options.ownFolder) === true;

/** Rule 8. A `.js` file of a dependency may be CommonJS. */
const isBuilt = (url: string | undefined): url is string =>
  isOwnFile(url) &&
  options!.ownFolder.endsWith("/dist/") &&
  (url.endsWith(".mjs") || (url.endsWith(".js") && !url.includes("/node_modules/")));
const isRelative = (specifier: string): boolean => /^\.\.?\/.*\.js$/.test(specifier);

function settle(resolved: ResolveFnOutput, { own, parentUrl }: Question): ResolveFnOutput {
  const number = LOAD.exec(parentUrl ?? "")?.[1];
  if (own || number === undefined || !resolved.url.startsWith("file:")) return resolved;
  const bare = resolved.url.replace(TSX_MARKS, "");
  if (bare.includes("/node_modules/")) return resolved;
  if (isTextFile(bare)) return { ...resolved, url: `${bare}?agents-load=${number}` };
  return SOURCE.test(bare) ? { ...resolved, ...tagged(bare, number) } : resolved;
}

function note(url: string): void {
  const number = LOAD.exec(url)?.[1];
  if (number !== undefined) report(url.replace(TSX_MARKS, ""), Number(number));
}

/** Undefined for a file that is not text. */
function textLoaded(url: string): LoadFnOutput | undefined {
  const bare = url.replace(TSX_MARKS, "");
  if (!LOAD.test(url) || !isTextFile(bare)) return undefined;
  const source = textModule(readFileSync(fileURLToPath(bare), "utf8"));
  return { format: "module", source, shortCircuit: true };
}

/** Rule 8. Undefined for any other file. */
const builtLoaded = (url: string): LoadFnOutput | undefined =>
  isBuilt(url)
    ? { format: "module", source: readFileSync(fileURLToPath(url)), shortCircuit: true }
    : undefined;

/** Names the user's file as the importer of a missing entry; Node would name this package's. */
function importedFrom(error: unknown, specifier: string, parentUrl: string | undefined): unknown {
  const code = (error as { readonly code?: unknown }).code;
  if (code !== "ERR_PACKAGE_PATH_NOT_EXPORTED" || !parentUrl?.startsWith("file:")) return error;
  const path = specifier.replace(PACKAGE, ".");
  const from = fileURLToPath(parentUrl.replace(TSX_MARKS, ""));
  const message = `Package subpath '${path}' is not defined by "exports" imported from ${from}`;
  return Object.assign(new Error(message), { code });
}

function noPlatformModule(specifier: string, parentUrl: string | undefined): Error {
  const isFile = parentUrl?.startsWith("file:") === true;
  const from = isFile ? ` imported from ${fileURLToPath(parentUrl!.replace(TSX_MARKS, ""))}` : "";
  return new Error(`There is no module '${specifier}'${from}`);
}

function tagged(url: string, number: string): { readonly url: string; readonly format: "module" } {
  const bare = url.replace(TSX_MARKS, "");
  // tsx transforms `module-typescript`, and Node strips it; Node's types don't list it.
  const typed = (options?.transforms ?? true) || !/\.m?js$/.test(bare);
  const format = (typed ? "module-typescript" : "module") as "module";
  return { url: `${bare}?agents-load=${number}`, format };
}
