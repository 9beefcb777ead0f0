/**
 * The servers that are driven, each as a process or a runtime of its own: an example on this
 * package (`agents dev` in its folder), and the same on the reference's runtime, for which the
 * checkout has `miniflare` installed.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parse } from "jsonc-parser";
import { readWrangler } from "../../../services/wrangler/readWrangler.ts";
import { pollUntil } from "../../kit/poll.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import type { ExampleServer } from "../exampleServers.ts";
import { bundleOf } from "./bundle.ts";

/** What `agents dev` runs. */
export const OURS = fileURLToPath(new URL("../../../dist/services/cli/main.js", import.meta.url));
/** The date of the examples' own configurations. */
const COMPATIBILITY_DATE = "2026-06-11";

export interface RunningServer {
  readonly url: string;
  readonly stop: () => Promise<void>;
}
type Env = Readonly<Record<string, string>>;

/** `agents dev` in the example's folder, without arguments that name the module. */
export async function startOurs({ module }: ExampleServer, env: Env): Promise<RunningServer> {
  const data = tempFolder("reference-drive");
  const [port, consolePort] = [await freePort(), await freePort()];
  const args = ["--port", `${port}`, "--console-port", `${consolePort}`, "--data", data.path];
  const folder = dirname(readWrangler(dirname(module))!.file);
  const child = spawn(process.execPath, [OURS, "dev", ...args], {
    cwd: folder,
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let told = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (bytes: Buffer) => (told += String(bytes)));
  const ended = once(child, "close");
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
    data.remove();
  };
  const url = `http://127.0.0.1:${port}`;
  try {
    await pollUntil("it serves", async () => {
      if (child.exitCode !== null) return { done: true as const, value: undefined };
      return (await fetch(url)).status > 0 || { done: false, saw: told };
    });
    if (child.exitCode !== null) throw new Error(`agents dev ended: ${told.slice(-2_000)}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}

interface Miniflare {
  readonly ready: Promise<URL>;
  dispose(): Promise<void>;
}
interface MiniflareModule {
  readonly Miniflare: new (options: object) => Miniflare;
  /** From release 5 on, whose own options have another shape. */
  readonly convertV4MiniflareOptions?: (options: object) => object;
}

/** The example on workerd, bundled with the checkout's packages. `root` is the checkout. */
export async function startReference(
  { module }: ExampleServer,
  env: Env,
  root: string,
): Promise<RunningServer> {
  const config = readWrangler(dirname(module))!;
  const { Miniflare, convertV4MiniflareOptions = (each) => each } = await importMiniflare(root);
  const bound = [...config.bindings];
  const isObject = ([, className]: readonly [string, string]): boolean =>
    config.objects.includes(className);
  const options = {
    modules: [{ type: "ESModule", path: "server.mjs", contents: await bundleOf(module) }],
    compatibilityDate: COMPATIBILITY_DATE,
    compatibilityFlags: ["nodejs_compat"],
    bindings: { ...config.vars, ...env },
    durableObjects: Object.fromEntries(
      bound.filter(isObject).map(([name, className]) => [name, { className, useSQLite: true }]),
    ),
    workflows: Object.fromEntries(
      bound
        .filter((each) => !isObject(each))
        .map(([name, className]) => [name, { name, className }]),
    ),
    workerLoaders: Object.fromEntries(rowsOf(config.file, "worker_loaders", "binding")),
    email: { send_email: rowsOf(config.file, "send_email", "name").map(([name]) => ({ name })) },
    host: "127.0.0.1",
    port: 0,
    cf: false,
    handleRuntimeStdio: (...streams: ReadonlyArray<Readable>) => {
      for (const stream of streams) stream.resume(); // what the app logs
    },
  };
  const server = new Miniflare(convertV4MiniflareOptions(options));
  const url = await server.ready;
  return { url: url.href, stop: () => server.dispose() };
}

/** The runtime that the checkout has installed. Rejects with what to do where there is none. */
export async function importMiniflare(root: string): Promise<MiniflareModule> {
  try {
    const path = createRequire(join(root, "package.json")).resolve("miniflare");
    return (await import(pathToFileURL(path).href)) as MiniflareModule;
  } catch (cause) {
    throw new Error(
      `--drive runs the reference in miniflare, which can't be loaded from ${root}. Install it there ` +
        `(npm install --prefix ${root} --legacy-peer-deps miniflare). It asks for Node 22.12 or newer; this is ${process.version}.`,
      { cause },
    );
  }
}

/** The names in a list of the configuration that this package has no use for. */
function rowsOf(file: string, list: string, key: string): ReadonlyArray<readonly [string, object]> {
  const rows = (parse(readFileSync(file, "utf8")) as Record<string, unknown>)[list] ?? [];
  return (rows as ReadonlyArray<Record<string, string>>).map((row) => [row[key]!, {}]);
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
