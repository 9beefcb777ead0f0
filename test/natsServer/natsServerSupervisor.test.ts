/** The laptop's nats-server lives as its scope, comes back when it dies, and never outlives us. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { Effect, Exit, Scope } from "effect";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { DataFolderInUse } from "../../services/lock/DataFolderLock.ts";
import {
  startNatsServer,
  type NatsServerOptions,
  type NatsServerShape,
} from "../../services/natsServer/NatsServer.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { ServerDidNotStart } from "../../services/natsServer/ServerProcess.ts";
import { natsServerBinary } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

let folder: TempFolder;
let opened: Opened[] = [];
let children: ChildProcess[] = [];
beforeEach(() => {
  // Spaces and quotes: what the server's configuration has to survive.
  folder = tempFolder(`super"visor's data`);
});
afterEach(async () => {
  for (const child of children) child.kill("SIGKILL");
  for (const one of opened) await one.close();
  opened = [];
  children = [];
  folder.remove();
});

interface Opened {
  readonly server: NatsServerShape;
  readonly said: string[];
  readonly close: () => Promise<void>;
}

async function open(options: Partial<NatsServerOptions> = {}): Promise<Opened> {
  const said: string[] = [];
  const line = (message: string): void => void said.push(message);
  const log: LogShape = { debug: line, info: line, warn: line, error: line };
  const scope = Effect.runSync(Scope.make());
  const close = (): Promise<void> => Effect.runPromise(Scope.close(scope, Exit.void));
  const binary = await natsServerBinary();
  const server = await Effect.runPromise(
    startNatsServer({ binary, folder: folder.path, ...options }).pipe(
      Effect.provideService(Scope.Scope, scope),
      Effect.provideService(Log, log),
      Effect.tapError(() => Scope.close(scope, Exit.void)),
    ),
  );
  const one = { server, said, close };
  opened.push(one);
  return one;
}

async function store(url: string): Promise<void> {
  const connection = await connect({ servers: url });
  const manager = await jetstreamManager(connection);
  await manager.streams.add({ name: "KEPT", subjects: ["kept"] });
  await jetstream(connection).publish("kept", "x");
  await connection.close();
}

async function storedMessages(url: string): Promise<number> {
  const connection = await connect({ servers: url });
  try {
    const manager = await jetstreamManager(connection);
    return (await manager.streams.info("KEPT")).state.messages;
  } finally {
    await connection.close();
  }
}

const isGone = (pid: number): boolean => identityOf(pid) === undefined;

/** Runs TypeScript as a real process of its own; resolves with its first line of output. */
async function runApart(source: string): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(
    process.execPath,
    ["--conditions=agents-source", "--import", "tsx", "--input-type=module", "-e", source],
    { cwd: join(import.meta.dirname, "../.."), stdio: ["ignore", "pipe", "pipe"] },
  );
  children.push(child);
  let output = "";
  let complaints = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (complaints += text));
  const line = await pollUntil("the process's first line", () =>
    output.includes("\n")
      ? { done: true, value: output.split("\n")[0] ?? "" }
      : { done: false, saw: output + complaints },
  );
  return { child, line };
}

const sourceOf = (path: string): string => JSON.stringify(join(import.meta.dirname, "../..", path));

/** SIGKILL, and waits for the end: until then its lock is that of a living process. */
async function killHard(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function openApart(): Promise<{ child: ChildProcess; pid: number; url: string }> {
  const { child, line } = await runApart(`
    import { Effect } from "effect";
    import { Log } from ${sourceOf("core/telemetry/Log.ts")};
    import { startNatsServer } from ${sourceOf("services/natsServer/NatsServer.ts")};
    const quiet = () => undefined;
    const log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
    const options = ${JSON.stringify({ binary: await natsServerBinary(), folder: folder.path })};
    const program = Effect.gen(function* () {
      const server = yield* startNatsServer(options);
      console.log(JSON.stringify({ pid: server.pid(), url: server.url }));
      yield* Effect.never;
    });
    setInterval(quiet, 1000);
    await Effect.runPromise(Effect.scoped(program).pipe(Effect.provideService(Log, log)));
  `);
  return { child, ...(JSON.parse(line) as { pid: number; url: string }) };
}

describe("while the scope is open", () => {
  test("comes back when its files could not be written for a while, as on a full disk", async () => {
    const { server, said } = await open();
    const pid = server.pid()!;
    const config = join(folder.path, "server.conf");
    rmSync(config);
    mkdirSync(config); // writing to it fails
    process.kill(pid, "SIGKILL");
    await pollUntil("a second restart is announced", () => {
      const died = said.filter((line) => line === "nats-server died; restarting it");
      return died.length >= 2 || { done: false, saw: said };
    });
    rmSync(config, { recursive: true });
    await pollUntil("it is back", () => said.includes("nats-server is back") || { done: false, saw: said }); // prettier-ignore
    expect(server.pid()).not.toBe(pid);
    expect(isGone(server.pid()!)).toBe(false);
  });

  test("the next start on a folder reuses the port and the streams", async () => {
    const first = await open();
    await store(first.server.url);
    const pid = first.server.pid() ?? 0;
    await first.close();
    expect(isGone(pid)).toBe(true);
    expect(existsSync(join(folder.path, "lock.json"))).toBe(false);

    const second = await open();
    expect(second.server.url).toBe(first.server.url);
    expect(await storedMessages(second.server.url)).toBe(1);
  });

  test("a server killed with -9 comes back on the same port with its streams, and the log says so", async () => {
    const { server, said } = await open();
    await store(server.url);
    for (const round of [1, 2]) {
      const pid = server.pid() ?? 0;
      process.kill(pid, "SIGKILL");
      await pollUntil(
        `the server is back, round ${round}`,
        async () => server.pid() !== pid && (await storedMessages(server.url)) === 1,
      );
    }
    expect(said.filter((line) => line === "nats-server died; restarting it")).toHaveLength(2);
  });

  test.each(["before", "while"])(
    "a scope closed %s a dead server is restarted leaves no server",
    async (moment) => {
      const { server, said, close } = await open();
      const first = server.pid() ?? 0;
      process.kill(first, "SIGKILL");
      if (moment === "while")
        await pollUntil("a new server starts", () => server.pid() !== first, { intervalMs: 1 });
      await close();
      expect(isGone(server.pid() ?? 0), said.join("; ")).toBe(true);
      expect(existsSync(join(folder.path, "lock.json"))).toBe(false);
    },
  );

  test("a second start on a folder in use is refused and leaves the first running", async () => {
    const { server } = await open();
    await store(server.url);
    const error = await open().catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(DataFolderInUse);
    expect((error as DataFolderInUse).message).toContain(
      `${folder.path} is in use by process ${process.pid}`,
    );
    expect(await storedMessages(server.url)).toBe(1);
  });

  test("the server syncs each message only with syncAlways", async () => {
    const { server } = await open({ syncAlways: true });
    expect(readFileSync(join(folder.path, "server.conf"), "utf8")).toContain(
      "sync_interval: always",
    );
    const said = readFileSync(server.logFile, "utf8");
    expect(said).toContain("Server is ready");
    const plain = await open({ folder: join(folder.path, "plain") });
    expect(readFileSync(join(folder.path, "plain", "server.conf"), "utf8")).not.toContain("sync");
    expect(plain.server.port).not.toBe(server.port);
  });

  test("the server accepts messages of 8 MiB, listens on 127.0.0.1 only, and starts without prompting", async () => {
    const { server } = await open();
    const connection = await connect({ servers: server.url });
    expect(connection.info?.max_payload).toBe(8 * 1024 * 1024);
    expect(connection.info?.host).toBe("127.0.0.1");
    await connection.close();
  });

  test("an oversized log is rotated at the next start", async () => {
    const logFile = join(folder.path, "server.log");
    writeFileSync(logFile, "old");
    truncateSync(logFile, 10 * 1024 * 1024 + 1);
    await open();
    expect(statSync(`${logFile}.1`).size).toBe(10 * 1024 * 1024 + 1);
    expect(statSync(logFile).size).toBeLessThan(100_000);
  });
});

describe("ports and binaries that do not work", () => {
  async function occupy(port = 0): Promise<{ port: number; free: () => void }> {
    const stranger = createServer();
    await new Promise<void>((resolve) => stranger.listen(port, "127.0.0.1", resolve));
    return { port: (stranger.address() as AddressInfo).port, free: () => stranger.close() };
  }

  test("a given port in use is an error", async () => {
    const stranger = await occupy();
    const error = await open({ port: stranger.port }).catch((cause: unknown) => cause);
    stranger.free();
    expect(error).toBeInstanceOf(ServerDidNotStart);
    expect((error as ServerDidNotStart).message).toMatch(/address already in use/);
    expect(existsSync(join(folder.path, "lock.json"))).toBe(false);
  });

  test("a folder whose port another program uses gets a new one, and keeps it", async () => {
    const first = await open();
    await first.close();
    const stranger = await occupy(first.server.port);
    const second = await open();
    expect(second.server.port).not.toBe(first.server.port);
    expect(second.said).toContain("another program uses this folder's port");
    await second.close();
    stranger.free();
    expect((await open()).server.port).toBe(second.server.port);
  });

  test("a binary that exits at once is an error with its output", async () => {
    const error = await open({ binary: "/bin/false" }).catch((cause: unknown) => cause);
    expect((error as ServerDidNotStart).message).toMatch(/did not start: ended with code 1/);
    const missing = await open({ binary: "/nowhere/x" }).catch((cause: unknown) => cause);
    expect((missing as ServerDidNotStart).message).toMatch(/ENOENT/);
  });
});

describe("when we are killed with -9", () => {
  test("the server ends too, and the next start takes over the folder with its data", async () => {
    const { child, pid, url } = await openApart();
    await store(url);
    await killHard(child);
    const next = await open();
    expect(isGone(pid)).toBe(true);
    expect(next.server.url).toBe(url);
    expect(await storedMessages(next.server.url)).toBe(1);
  });

  test("the server stops if there is no successor", async () => {
    const { child, pid } = await openApart();
    expect(isGone(pid)).toBe(false);
    await killHard(child);
    await pollUntil("the server ends", () => isGone(pid) || { done: false, saw: identityOf(pid) });
  });

  test("a frozen server ends too", async () => {
    const { child, pid, url } = await openApart();
    process.kill(pid, "SIGSTOP");
    await killHard(child);
    const next = await open();
    expect(isGone(pid)).toBe(true);
    expect(next.server.url).toBe(url);
  });

  test.each(["shell", "node"])(
    "a killed watchdog (%s) is replaced, and the server still ends",
    async (kind) => {
      const { child, line } = await runApart(`
      import { spawn } from "node:child_process";
      import { startWatchdog } from ${sourceOf("services/natsServer/Watchdog.ts")};
      const watchdog = startWatchdog(${JSON.stringify(kind)});
      const first = watchdog.pid();
      const guarded = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
      watchdog.guard(guarded.pid);
      process.kill(first, "SIGKILL");
      const wait = setInterval(() => {
        if (watchdog.pid() === first) return;
        clearInterval(wait);
        console.log(JSON.stringify({ guarded: guarded.pid, helper: watchdog.pid() }));
      }, 5);
      setInterval(() => undefined, 1000);
    `);
      const { guarded, helper } = JSON.parse(line) as { guarded: number; helper: number };
      expect(isGone(guarded)).toBe(false);
      await killHard(child);
      await pollUntil(
        "the guarded process and the helper end",
        () =>
          (isGone(guarded) && isGone(helper)) || {
            done: false,
            saw: [identityOf(guarded), identityOf(helper)],
          },
      );
    },
  );

  test("a watchdog that is released guards nothing and ends", async () => {
    const { child, line } = await runApart(`
      import { spawn } from "node:child_process";
      import { startWatchdog } from ${sourceOf("services/natsServer/Watchdog.ts")};
      const watchdog = startWatchdog();
      const other = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
      watchdog.guard(other.pid);
      watchdog.release();
      console.log(JSON.stringify({ other: other.pid, helper: watchdog.pid() }));
      setInterval(() => undefined, 1000);
    `);
    const { other, helper } = JSON.parse(line) as { other: number; helper: number };
    await pollUntil("the helper ends", () => isGone(helper));
    expect(isGone(other)).toBe(false);
    process.kill(other, "SIGKILL");
    await killHard(child);
  });
});
