/**
 * Reads a module's secrets and settings: the process's environment and the `.env` files beside the
 * module and in the working folder. The command line calls it; the result feeds verifiers
 * (`secret: "NAME"`), agents (`this.env`), and the environment of the process that runs the module.
 */
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as Data from "effect/Data";

/** Later files override earlier ones. Modules of other runtimes keep secrets in `.dev.vars`. */
const ENV_FILES = [".dev.vars", ".env", ".env.local"] as const;

export interface LoadedEnv {
  /** By name. A name that is not set is absent; no value is undefined. */
  readonly env: Readonly<Record<string, string>>;
  /** The files that were read, the weakest first. */
  readonly files: ReadonlyArray<string>;
  /** Lines of the files that set nothing and are neither empty nor comments, from 1 on. */
  readonly ignored: ReadonlyArray<{ readonly file: string; readonly line: number }>;
}

/** A file exists but can't be read. `message` says which file and why. */
class EnvFileUnreadable extends Data.TaggedError("EnvFileUnreadable")<{
  readonly file: string;
  readonly message: string;
}> {}

export interface EnvOptions {
  /** The module's path. Files in its folder override those of the working folder. */
  readonly module?: string | undefined;
  readonly cwd?: string;
  /** Overrides every file. Default: the process's environment. */
  readonly processEnv?: Readonly<Record<string, string | undefined>>;
  /** A folder whose files are weaker than those beside the module. Absent: none. */
  readonly folder?: string | undefined;
}

/** Absolute paths of the files that `loadEnv` looks for, the weakest first. */
export function envFilesOf(options: EnvOptions): ReadonlyArray<string> {
  const cwd = resolve(options.cwd ?? process.cwd());
  const folders = options.folder === undefined ? [cwd] : [cwd, options.folder];
  if (options.module !== undefined) folders.push(dirname(resolve(cwd, options.module)));
  return [...new Set(folders)].flatMap((folder) => ENV_FILES.map((name) => join(folder, name)));
}

/** Missing files are skipped. Throws `EnvFileUnreadable`. */
export function loadEnv(options: EnvOptions = {}): LoadedEnv {
  const env: Record<string, string> = {};
  const files: string[] = [];
  const ignored: Array<{ readonly file: string; readonly line: number }> = [];
  for (const file of envFilesOf(options)) {
    const text = readText(file);
    if (text === undefined) continue;
    Object.assign(env, parseEnvText(text));
    ignored.push(...ignoredLines(text).map((line) => ({ file, line })));
    files.push(file);
  }
  for (const [name, value] of Object.entries(options.processEnv ?? process.env))
    if (value !== undefined) env[name] = value;
  return { env, files, ignored };
}

/**
 * Parses `KEY=VALUE` lines with `export `, comments (a `#` after a blank) and quotes, which may
 * span lines. `\n`, `\r`, `\t`, `\"` and `\\` are escapes in double quotes only. Other lines are
 * ignored (`ignoredLines`). Node's own parser joins an indented comment to the next name, in every
 * release that this package supports.
 */
export function parseEnvText(text: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [, name, double, single, back, plain] of cleaned(text).matchAll(LINE)) {
    const quoted = double?.replace(/\\([nrt"\\])/g, (_, c: string) => ESCAPES[c] ?? c);
    env[name!] = quoted ?? single ?? back ?? plain?.trim() ?? "";
  }
  return env;
}

const cleaned = (text: string): string => text.replace(/^\uFEFF/, "").replaceAll("\r\n", "\n");

/** Numbers of the lines that `parseEnvText` ignores, except empty ones and comments. */
function ignoredLines(text: string): ReadonlyArray<number> {
  const rest = cleaned(text).replace(LINE, (set) => set.replace(/[^\n]+/g, ""));
  return rest.split("\n").flatMap((line, i) => (/^\s*(#|$)/.test(line) ? [] : [i + 1]));
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };
const LINE = new RegExp(
  [
    /^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*/,
    /(?:(?:"((?:[^"\\]|\\[^])*)"|'([^']*)'|`([^`]*)`)[ \t]*(?:#[^\n]*)?|([^\n]*?)(?:(?<=[ \t])#[^\n]*)?)$/,
  ]
    .map((part) => part.source)
    .join(""),
  "gm",
);

/**
 * Sets the names that the process's own environment lacks, so that a module and its libraries find
 * in `process.env` what `this.env` has. `own` is that environment without what an earlier call has
 * set; it is stronger than any file. `before`: what that call has set; the rest of it is removed.
 */
export function fillProcessEnv(
  env: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string | undefined>> = process.env,
  before: Readonly<Record<string, string>> = {},
): void {
  for (const name of Object.keys(before))
    if (!Object.hasOwn(env, name)) Reflect.deleteProperty(process.env, name);
  for (const [name, value] of Object.entries(env))
    if (own[name] === undefined) process.env[name] = value;
}

/** Undefined if there is no such file. Throws `EnvFileUnreadable`. */
export function readEnvFile(file: string): Readonly<Record<string, string>> | undefined {
  const text = readText(file);
  return text === undefined ? undefined : parseEnvText(text);
}

function readText(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new EnvFileUnreadable({
      file,
      message: `${file} can't be read (${code ?? String(error)}): fix its permissions or remove it`,
    });
  }
}
