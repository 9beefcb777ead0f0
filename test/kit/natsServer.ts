/**
 * Real nats-servers for tests: started on a free port with JetStream in a folder of its own,
 * killed, frozen, restarted at will, and gone when the test worker is gone, however it went.
 *
 * The binary is found as the product finds it (`NATS_SERVER` first), once a worker.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Effect } from "effect";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";
import { isPortFree, pickPort } from "../../services/natsServer/pickPort.ts";
import {
  MAX_PAYLOAD_BYTES_DEFAULT,
  serverConfigText,
} from "../../services/natsServer/ServerConfig.ts";
import { spawnServer, type ServerProcess } from "../../services/natsServer/ServerProcess.ts";
import { startWatchdog } from "../../services/natsServer/Watchdog.ts";
import { tempFolder } from "./tempFolder.ts";

export interface TestNatsOptions {
  /** Kept by `stop()` if given; else a temporary folder that `stop()` removes. */
  readonly storeDir?: string;
  /** More lines of server configuration. `jetstream { sync_interval: always }` is `syncAlways`. */
  readonly configExtra?: string;
  readonly syncAlways?: boolean;
  /** Bytes. */
  readonly maxPayload?: number;
  readonly port?: number;
}

export interface TestNats {
  readonly url: string;
  readonly port: number;
  /** The process of the current run: another after `restart()`. */
  readonly pid: number;
  /** Identifies the server to the others of its cluster. */
  readonly serverName: string;
  readonly storeDir: string;
  readonly logFile: string;
  /** Ends it for good (SIGTERM, thawed first; later SIGKILL) and removes temporary files. */
  readonly stop: () => Promise<void>;
  /** SIGKILL, and waits for its end. `restart()` brings it back. */
  readonly kill: () => Promise<void>;
  /** Stops it in order if it runs; starts it on the same port and store; waits until it serves. */
  readonly restart: () => Promise<void>;
  /** SIGSTOP: connections stay open and nothing answers. */
  readonly freeze: () => void;
  /** SIGCONT. */
  readonly thaw: () => void;
}

const READY_TIMEOUT_MS = 20_000;
const STOP_GRACE_MS = 5_000;
/** Another process can take the port between our choice and the server's listening. */
const START_ATTEMPTS_MAX = 5;

/** Its threads stop one by one: on a busy machine one may still answer when the signal is sent. */
function untilStopped(pid: number | undefined): void {
  const tasks = `/proc/${pid}/task`;
  const deadlineMs = Date.now() + STOP_GRACE_MS;
  const stopped = (task: string): boolean => {
    const stat = readFileSync(`${tasks}/${task}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).startsWith("T");
  };
  while (existsSync(tasks) && !readdirSync(tasks).every(stopped))
    if (Date.now() > deadlineMs) throw new Error(`process ${pid} does not stop`);
}

let binary: Promise<string> | undefined;

/** Where the nats-server binary is; found once a worker. */
export function natsServerBinary(): Promise<string> {
  return (binary ??= Effect.runPromise(findNatsServer()).then((found) => found.path));
}

/** Resolves when the server accepts clients and JetStream is up. */
export async function startNats(options: TestNatsOptions = {}): Promise<TestNats> {
  const path = await natsServerBinary();
  const folder = tempFolder("nats");
  const storeDir = options.storeDir ?? join(folder.path, "store");
  mkdirSync(storeDir, { recursive: true });
  const configFile = join(folder.path, "server.conf");
  const logFile = join(folder.path, "server.log");
  const watchdog = startWatchdog();

  const nameOf = (port: number): string => `test-${process.pid}-${port}`;
  const start = async (port: number): Promise<ServerProcess> => {
    const serverName = nameOf(port);
    writeFileSync(
      configFile,
      serverConfigText({
        serverName,
        port,
        storeDir,
        maxPayloadBytes: options.maxPayload ?? MAX_PAYLOAD_BYTES_DEFAULT,
        syncAlways: options.syncAlways ?? false,
        extra: options.configExtra,
      }),
    );
    const started = spawnServer({ binary: path, configFile, logFile, port, serverName });
    if (started.pid !== undefined) watchdog.guard(started.pid);
    try {
      await started.serves(READY_TIMEOUT_MS);
    } catch (error) {
      await started.stop(0);
      throw error;
    }
    return started;
  };

  let port = options.port ?? (await pickPort());
  let server: ServerProcess | undefined;
  for (let attempt = 1; server === undefined; attempt += 1) {
    try {
      server = await start(port);
    } catch (error) {
      const mayRetry = options.port === undefined && attempt < START_ATTEMPTS_MAX;
      if (!mayRetry || (await isPortFree(port))) {
        watchdog.release();
        folder.remove();
        throw error;
      }
      port = await pickPort();
    }
  }
  let current: ServerProcess = server;

  const end = async (): Promise<void> => {
    current.signal("SIGCONT");
    await current.stop(STOP_GRACE_MS);
  };
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    get pid() {
      return current.pid ?? 0;
    },
    serverName: nameOf(port),
    storeDir,
    logFile,
    stop: async () => {
      await end();
      watchdog.release();
      folder.remove();
    },
    kill: async () => {
      current.signal("SIGKILL");
      await current.stop(STOP_GRACE_MS);
    },
    restart: async () => {
      await end();
      current = await start(port);
    },
    freeze: () => {
      current.signal("SIGSTOP");
      untilStopped(current.pid);
    },
    thaw: () => void current.signal("SIGCONT"),
  };
}
