/**
 * The peers as subjects: the reference package on workerd, Restate, and a handler by hand on
 * Postgres. Their packages are installed into a temporary folder (or `AGENTS_PEERS`, which is
 * kept); Postgres must be on the machine, as Debian's package has it.
 */
import { execFile } from "node:child_process";
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { BenchFailed } from "../Bench.ts";
import { ServerProcess } from "./ServerProcess.ts";
import type { Subject } from "./Subject.ts";

const PROGRAMS = fileURLToPath(new URL("../peers/", import.meta.url));
const PACKAGES = [
  "agents@0.32", "esbuild", "workerd", "pg", "@restatedev/restate-server", "@restatedev/restate-sdk",
]; // prettier-ignore
/** `nobody` of Debian: Postgres refuses to run as root. */
const NOBODY = 65_534;
const run = promisify(execFile);

export interface PeerFolder {
  readonly path: string;
  readonly remove: () => void;
}

/** Installs the packages unless they are there. */
export async function installPeers(): Promise<PeerFolder> {
  const given = process.env["AGENTS_PEERS"];
  const folder =
    given === undefined ? tempFolder("peers") : { path: given, remove: () => undefined };
  mkdirSync(folder.path, { recursive: true });
  for (const program of ["worker.mjs", "restate.mjs", "postgres.mjs"])
    copyFileSync(join(PROGRAMS, program), join(folder.path, program));
  if (existsSync(join(folder.path, "node_modules/agents"))) return folder;
  writeFileSync(join(folder.path, "package.json"), `{"private":true,"type":"module"}`);
  await run("npm", ["install", "--no-audit", "--no-fund", ...PACKAGES], { cwd: folder.path });
  return folder;
}

/** `program` in a folder of `folder` whose name fits: a platform's, or a version's. */
function findProgram(folder: string, name: RegExp, program: string): string {
  const names = existsSync(folder) ? readdirSync(folder).filter((found) => name.test(found)) : [];
  const found = names.map((own) => join(folder, own, program)).find((path) => existsSync(path));
  if (found === undefined) throw new BenchFailed(`no ${program} below ${folder}`);
  return found;
}

interface PeerParts {
  readonly name: string;
  readonly port: number;
  readonly target: Subject["target"];
  /** Started in order, stopped in the opposite one. */
  readonly processes: ReadonlyArray<ServerProcess>;
  readonly remove: () => void;
}

function subject({ name, port, target, processes, remove }: PeerParts): Subject {
  return {
    name,
    broker: "",
    url: `http://127.0.0.1:${port}`,
    target,
    cpuSeconds: () => ({ node: NaN, broker: NaN }),
    answers: () => Promise.resolve(undefined),
    stop: async () => {
      for (const server of processes.toReversed()) await server.stop();
      remove();
    },
  };
}

const answersAt = (url: string) => async (): Promise<boolean> => {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false; // not listening yet
  }
};

export async function startReference({ path }: PeerFolder): Promise<Subject> {
  const folder = tempFolder("workerd");
  const port = await pickPort();
  // The module of Cloudflare's own servers: workerd has its name without its content.
  const email = join(folder.path, "email.mjs");
  writeFileSync(email, "export class EmailMessage {}");
  await run(
    join(path, "node_modules/.bin/esbuild"),
    [
      join(path, "worker.mjs"), "--bundle", "--format=esm", "--target=esnext", "--conditions=workerd,worker",
      "--external:cloudflare:*", "--external:node:*", "--alias:path=node:path",
      `--alias:cloudflare:email=${email}`,
      // Some of its packages are CommonJS and require what is built in.
      `--banner:js=import{createRequire}from"node:module";const require=createRequire("/");`, `--outfile=${join(folder.path, "worker.js")}`,
    ], // prettier-ignore
    { cwd: path },
  );
  const disk = join(folder.path, "disk");
  mkdirSync(disk);
  const config = join(folder.path, "config.capnp");
  writeFileSync(
    config,
    `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "disk", disk = (path = "${disk}", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "worker.js")],
  compatibilityDate = "2026-01-01",
  compatibilityFlags = ["nodejs_compat"],
  durableObjectNamespaces = [(className = "CountingAgent", uniqueKey = "counting", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
  bindings = [(name = "CountingAgent", durableObjectNamespace = "CountingAgent")],
);
`,
  );
  const command = findProgram(join(path, "node_modules/@cloudflare"), /^workerd-/, "bin/workerd");
  const args = ["serve", "--experimental", config];
  const server = new ServerProcess({ name: "workerd", command, cwd: folder.path, args });
  await server.ready(answersAt(`http://127.0.0.1:${port}/`));
  const target = { PATH_PREFIX: "/acme-" };
  return subject({
    name: "reference on workerd",
    port,
    target,
    processes: [server],
    remove: folder.remove,
  });
}

export async function startRestate({ path }: PeerFolder): Promise<Subject> {
  const folder = tempFolder("restate");
  const [port, admin, node, app] = [await pickPort(), await pickPort(), await pickPort(), await pickPort()]; // prettier-ignore
  const command = findProgram(
    join(path, "node_modules/@restatedev"),
    /^restate-server-/,
    "bin/restate-server",
  );
  const server = new ServerProcess({
    name: "restate-server",
    command,
    cwd: folder.path,
    args: ["--base-dir", folder.path, "--node-name", "bench"],
    env: {
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${port}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_BIND_ADDRESS: `127.0.0.1:${node}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${node}`,
      RESTATE_LOG_FILTER: "warn",
      RESTATE_DISABLE_TELEMETRY: "true",
    },
  });
  const handler = new ServerProcess({ name: "restate handler", cwd: path, args: [join(path, "restate.mjs"), String(app)] }); // prettier-ignore
  const parts = subject({
    name: "Restate",
    port,
    target: { PATH_PREFIX: "/counting/acme-", PATH_SUFFIX: "/deliver" },
    processes: [server, handler],
    remove: folder.remove,
  });
  try {
    await server.ready(answersAt(`http://127.0.0.1:${admin}/health`));
    await handler.ready((output) => output.includes("listening"));
    const registered = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ uri: `http://127.0.0.1:${app}` }),
    });
    if (!registered.ok) throw new BenchFailed(`Restate: ${await registered.text()}`);
  } catch (error) {
    await parts.stop();
    throw error;
  }
  return parts;
}

/** With synchronous commit, Postgres' default; `fsync` is off only for the comparison without. */
export async function startPostgres({ path }: PeerFolder, fsync: boolean): Promise<Subject> {
  const command = findProgram("/usr/lib/postgresql", /^\d+$/, "bin/postgres");
  const folder = tempFolder("postgres");
  const data = join(folder.path, "data");
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  if (user.uid !== undefined) chownSync(folder.path, user.uid, NOBODY);
  await run(join(command, "../initdb"), ["-D", data, "-U", "bench", "-A", "trust", "--no-sync"], { ...user, cwd: folder.path }); // prettier-ignore
  const [port, postgresPort] = [await pickPort(), await pickPort()];
  const postgres = new ServerProcess({
    name: "postgres",
    command,
    cwd: folder.path,
    ...user,
    args: [
      "-D", data, "-p", String(postgresPort), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
      "-c", `fsync=${fsync ? "on" : "off"}`,
    ], // prettier-ignore
  });
  await postgres.ready((output) => output.includes("ready to accept connections"));
  const handler = new ServerProcess({
    name: "node handler",
    cwd: path,
    args: [join(path, "postgres.mjs"), String(port), String(postgresPort)],
  });
  await handler.ready((output) => output.includes("listening"));
  return subject({
    name: `node + Postgres${fsync ? "" : ", fsync off"}`,
    port,
    target: { PATH_PREFIX: "/acme-" },
    processes: [postgres, handler],
    remove: folder.remove,
  });
}
