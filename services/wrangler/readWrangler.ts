/**
 * Finds and reads the configuration file of the reference's platform beside a module. Reads files
 * only. What this system does not have becomes a note that names what to use instead; an unknown
 * key is ignored, since the file is also written for another program.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import * as Data from "effect/Data";
import { parse as parseJsonc, printParseErrorCode, type ParseError } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import type { AssetsConfig, WranglerConfig } from "./WranglerConfig.ts";
import { messageOf } from "../../core/errors/thrown.ts";

const NAMES = ["wrangler.jsonc", "wrangler.json", "wrangler.toml"];
/** Where the build of the platform's Vite plugin puts the files of a page. */
const VITE_OUTPUT = "dist/client";

/** Bindings that this system does not have, and what takes their place. */
const INSTEAD: Readonly<Record<string, string>> = {
  ai: "call a model's HTTP API with fetch",
  analytics_engine_datasets: "scrape /metrics, or write rows with this.sql",
  browser: "start a browser of your own, for example with playwright-core",
  containers: "run the program beside this process, and call it with fetch",
  d1_databases: "use this.sql: every agent has a database",
  hyperdrive: "connect to the database with its own client",
  kv_namespaces: "use the state or this.sql of an agent",
  queues: "use this.queue() of an agent",
  r2_buckets: "use an S3 client",
  services: "call the other service with fetch",
  triggers: "use this.schedule() of an agent, which takes cron expressions",
  vectorize: "use a vector database's own client",
  worker_loaders:
    "import code that you trust with import(), and run any other in a container that you call with fetch",
};

/** Files of a folder of static files that configure the reference's platform. */
const UNAPPLIED: Readonly<Record<string, string>> = {
  _headers:
    'set headers in the fetch of the module, which gets a path first by "run_worker_first", or in a proxy',
  _redirects: "answer with Response.redirect in the fetch of the module",
  "_worker.js": 'name the module by "main"',
};

/** The file exists but can't be used. `message` says which file, where and why. */
export class WranglerUnreadable extends Data.TaggedError("WranglerUnreadable")<{
  readonly file: string;
  readonly message: string;
}> {}

/**
 * The configuration of this folder or of the nearest one above it, up to the first that has a
 * `package.json`. Undefined where there is none. Throws `WranglerUnreadable`.
 */
export function readWrangler(folder: string): WranglerConfig | undefined {
  const file = findWrangler(resolve(folder));
  return file === undefined ? undefined : readFile(file);
}

function findWrangler(folder: string): string | undefined {
  const found = NAMES.map((name) => join(folder, name)).find(existsSync);
  if (found !== undefined) return found;
  const parent = dirname(folder);
  return parent === folder || existsSync(join(folder, "package.json"))
    ? undefined
    : findWrangler(parent);
}

type Table = Readonly<Record<string, unknown>>;

function readFile(file: string): WranglerConfig {
  const config = parseFile(file);
  const folder = dirname(file);
  const workflows = rows(config["workflows"]);
  const objects = rows(table(config["durable_objects"])["bindings"]);
  const bindings = new Map<string, string>();
  const bind = (name: unknown, className: unknown): void => {
    if (typeof name === "string" && typeof className === "string") bindings.set(name, className);
  };
  for (const row of objects) bind(row["name"], row["class_name"]);
  for (const row of workflows) bind(row["binding"], row["class_name"]);
  const assets = readAssets(config["assets"], folder);
  const main = config["main"];
  return {
    file,
    main: typeof main === "string" ? resolve(folder, main) : undefined,
    vars: table(config["vars"]),
    bindings,
    objects: namesOf(objects, "class_name"),
    mailBindings: namesOf(rows(config["send_email"]), "name"),
    loaders: namesOf(rows(config["worker_loaders"]), "binding"),
    assets,
    notes: [
      ...Object.keys(INSTEAD)
        .filter((key) => key in config)
        .map((key) => `"${key}" is not available here: ${INSTEAD[key]!}`),
      ...(assets === undefined && config["assets"] !== undefined
        ? [
            `"assets" has no directory, and there is no ${VITE_OUTPUT}: build the page first, or let the Vite dev server serve it`,
          ]
        : []),
      ...Object.keys(UNAPPLIED)
        .filter((name) => assets !== undefined && existsSync(join(assets.directory, name)))
        .map((name) => `"${name}" of the static files is not applied: ${UNAPPLIED[name]!}`),
      ...("env" in config ? [`"env" is ignored: the top level is used`] : []),
    ],
  };
}

function parseFile(file: string): Table {
  const refuse = (why: string): never => {
    throw new WranglerUnreadable({ file, message: `${file} can't be read: ${why}` });
  };
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return refuse((error as NodeJS.ErrnoException).code ?? String(error));
  }
  if (file.endsWith(".toml"))
    try {
      return parseToml(text) as Table;
    } catch (error) {
      return refuse(messageOf(error));
    }
  const errors: ParseError[] = [];
  const value: unknown = parseJsonc(text, errors, { allowTrailingComma: true });
  const first = errors[0];
  if (first !== undefined) {
    const line = text.slice(0, first.offset).split("\n").length;
    refuse(`${printParseErrorCode(first.error)} in line ${line}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return refuse("it holds no object");
  return value as Table;
}

function readAssets(value: unknown, folder: string): AssetsConfig | undefined {
  if (value === undefined) return undefined;
  const { directory, binding, not_found_handling, run_worker_first } = table(value);
  const path = resolve(folder, typeof directory === "string" ? directory : VITE_OUTPUT);
  if (typeof directory !== "string" && !existsSync(path)) return undefined;
  return {
    directory: path,
    binding: typeof binding === "string" ? binding : undefined,
    singlePage: not_found_handling === "single-page-application",
    moduleFirst:
      run_worker_first === true
        ? true
        : Array.isArray(run_worker_first)
          ? run_worker_first.filter((pattern) => typeof pattern === "string")
          : [],
  };
}

const table = (value: unknown): Table =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Table) : {};

const rows = (value: unknown): ReadonlyArray<Table> =>
  Array.isArray(value) ? value.map(table) : [];

const namesOf = (of: ReadonlyArray<Table>, key: string): ReadonlyArray<string> =>
  of.map((row) => row[key]).filter((name) => typeof name === "string");
