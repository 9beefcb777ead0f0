/**
 * The nats-server of a laptop: a supervised child process on a data folder of its own. Owns its
 * configuration, port and log, and runs it exactly as long as the scope is open. Servers that
 * others run (`--nats`, `NATS_URL`) are used elsewhere. `findNatsServer` provides the binary;
 * `agents dev` opens and closes the server.
 *
 * 1. One server runs on a folder at a time: the folder is locked first and released last.
 * 2. A server that dies is started again on the same port and store, with growing pauses. Each
 *    restart is logged, and clients reconnect.
 * 3. The server never outlives this process. The scope's end stops it; if this process is killed,
 *    the watchdog stops it.
 * 4. A folder keeps its port, so that clients configured for it still work the next time.
 */
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import * as Effect from "effect/Effect";
import type * as Scope from "effect/Scope";
import { messageOf } from "../../core/errors/thrown.ts";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { lockDataFolder, DataFolderInUse } from "../lock/DataFolderLock.ts";
import type { FileLock } from "../lock/FileLock.ts";
import { isPortFree, pickPort } from "./pickPort.ts";
import { MAX_PAYLOAD_BYTES_DEFAULT, serverConfigText } from "./ServerConfig.ts";
import { ServerDidNotStart, spawnServer, type ServerProcess } from "./ServerProcess.ts";
import { startWatchdog, type Watchdog } from "./Watchdog.ts";

export interface NatsServerOptions {
  /** From `findNatsServer`. */
  readonly binary: string;
  /** Used by this server only. Created when absent. */
  readonly folder: string;
  /** Must be free, or the start fails. Default: the folder's own, chosen at its first start. */
  readonly port?: number | undefined;
  /** Syncs each message before its ack: safe against power loss, but slower. Default false. */
  readonly syncAlways?: boolean | undefined;
}

export interface NatsServerShape {
  /** `nats://127.0.0.1:<port>`; stays the same across restarts. */
  readonly url: string;
  readonly port: number;
  readonly logFile: string;
  /** Process id of the current or last run; undefined if it could not be started. */
  readonly pid: () => number | undefined;
}

/** The server reads its whole store, perhaps many gigabytes, before it greets clients. */
const READY_TIMEOUT_MS = 60_000;
/** Time to flush the stores. After it, acked messages are in the system's cache anyway. */
const STOP_GRACE_MS = 10_000;
const RESTART_PAUSE_MIN_MS = 100;
/** Restarts have no limit: nothing works without the server, and each failure is logged. */
const RESTART_PAUSE_MAX_MS = 5_000;
/** After a run of this length the pauses start small again: the start was not the cause. */
const HEALTHY_AFTER_MS = 10_000;
/** Months of a laptop's log. The previous file is kept beside it. */
const LOG_BYTES_MAX = 10 * 1024 * 1024;
/** Another program may take the chosen port before the server listens, but not this often. */
const PORT_ATTEMPTS_MAX = 5;

/** Succeeds when the server serves. The server then runs until the scope closes. */
export const startNatsServer = (
  options: NatsServerOptions,
): Effect.Effect<NatsServerShape, DataFolderInUse | ServerDidNotStart, Scope.Scope | Log> =>
  Effect.gen(function* () {
    const log = yield* Log;
    const folder = resolve(options.folder);
    const lock = yield* Effect.acquireRelease(lockFolder(folder), (held) =>
      Effect.sync(held.release),
    );
    const watchdog = yield* Effect.acquireRelease(
      Effect.sync(() => startWatchdog()),
      (helper) => Effect.sync(helper.release),
    );
    const runner = yield* Effect.acquireRelease(
      Effect.sync(() => makeRunner(options, folder, lock, watchdog)),
      (owned) => Effect.promise(owned.stop),
    );
    const port = yield* firstStart(options, folder, runner, log);
    yield* Effect.forkScoped(supervise(runner, port, log));
    return {
      url: `nats://127.0.0.1:${port}`,
      port,
      logFile: join(folder, "server.log"),
      pid: runner.pid,
    };
  });

const lockFolder = (folder: string): Effect.Effect<FileLock, DataFolderInUse> =>
  Effect.tryPromise({
    try: async () => {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      chmodSync(folder, 0o700); // an older release created it readable by all users
      return lockDataFolder(folder);
    },
    catch: (error) => error,
  }).pipe(
    Effect.catch((error) =>
      error instanceof DataFolderInUse ? Effect.fail(error) : Effect.die(error),
    ),
  );

interface Runner {
  /** Spawns a server on this port. It is the current server from the same tick on. */
  readonly spawn: (port: number) => ServerProcess;
  readonly pid: () => number | undefined;
  /** Resolves when the current server has ended, with how it ended. */
  readonly ended: () => Promise<string>;
  readonly stop: () => Promise<void>;
}

function makeRunner(
  options: NatsServerOptions,
  folder: string,
  lock: FileLock,
  watchdog: Watchdog,
): Runner {
  const serverName = `agents-${randomBytes(6).toString("hex")}`;
  const configFile = join(folder, "server.conf");
  const logFile = join(folder, "server.log");
  let current: ServerProcess | undefined;
  return {
    spawn: (port) => {
      rotateLog(logFile);
      const config = {
        serverName,
        port,
        storeDir: join(folder, "store"),
        maxPayloadBytes: MAX_PAYLOAD_BYTES_DEFAULT,
        syncAlways: options.syncAlways ?? false,
      };
      writeFileSync(configFile, serverConfigText(config), { mode: 0o600 });
      current = spawnServer({ binary: options.binary, configFile, logFile, port, serverName });
      if (current.pid !== undefined) {
        watchdog.guard(current.pid);
        lock.note({ pid: current.pid, port });
      }
      return current;
    },
    pid: () => current?.pid,
    ended: async () => (await current?.exited) ?? "it was never started",
    stop: async () => current?.stop(STOP_GRACE_MS),
  };
}

/** The first start, which decides the port. A failure is the caller's to report. */
const firstStart = (
  options: NatsServerOptions,
  folder: string,
  runner: Runner,
  log: LogShape,
): Effect.Effect<number, ServerDidNotStart> =>
  Effect.gen(function* () {
    const portFile = join(folder, "port");
    const kept = keptPort(portFile);
    let port = options.port ?? kept ?? (yield* Effect.promise(pickPort));
    for (let attempt = 1; ; attempt += 1) {
      const started = yield* Effect.result(serve(runner.spawn(port)));
      if (started._tag === "Success") break;
      const isTaken = !(yield* Effect.promise(() => isPortFree(port)));
      if (options.port !== undefined || !isTaken || attempt >= PORT_ATTEMPTS_MAX) {
        return yield* Effect.fail(started.failure);
      }
      const taken = port;
      port = yield* Effect.promise(pickPort);
      if (taken === kept) log.warn("another program uses this folder's port", { taken, port });
    }
    if (options.port === undefined && port !== kept)
      writeFileSync(portFile, `${port}\n`, { mode: 0o600 });
    return port;
  });

/** Runs until interrupted: waits for the server's end and starts it again (rule 2). */
const supervise = (runner: Runner, port: number, log: LogShape): Effect.Effect<never> =>
  Effect.gen(function* () {
    let pauseMs = RESTART_PAUSE_MIN_MS;
    let startedAtMs = performance.now();
    let how = yield* Effect.promise(runner.ended);
    for (;;) {
      if (performance.now() - startedAtMs > HEALTHY_AFTER_MS) pauseMs = RESTART_PAUSE_MIN_MS;
      log.warn("nats-server died; restarting it", { how, port, pauseMs });
      yield* Effect.sleep(pauseMs);
      pauseMs = Math.min(pauseMs * 2, RESTART_PAUSE_MAX_MS);
      startedAtMs = performance.now();
      const started = yield* Effect.result(restart(runner, port));
      if (started._tag === "Success") {
        log.info("nats-server is back", { port, pid: runner.pid() });
        how = yield* Effect.promise(runner.ended);
      } else how = started.failure;
    }
  });

/**
 * Fails with the reason. A full disk, on which the server's files can't be written, may be why it
 * died: the next attempt can succeed.
 */
const restart = (runner: Runner, port: number): Effect.Effect<void, string> =>
  Effect.try({ try: () => runner.spawn(port), catch: messageOf }).pipe(
    // It may run already.
    Effect.onError(() => Effect.promise(runner.stop)),
    Effect.flatMap((server) => Effect.mapError(serve(server), ({ why }) => why)),
  );

/** Waits until the server serves. A server that does not serve in time is stopped. */
const serve = (server: ServerProcess): Effect.Effect<void, ServerDidNotStart> =>
  Effect.tryPromise({ try: () => server.serves(READY_TIMEOUT_MS), catch: (error) => error }).pipe(
    Effect.catch((error) =>
      error instanceof ServerDidNotStart ? Effect.fail(error) : Effect.die(error),
    ),
    Effect.onError(() => Effect.promise(() => server.stop(STOP_GRACE_MS))),
  );

function keptPort(portFile: string): number | undefined {
  try {
    const port = Number(readFileSync(portFile, "utf8"));
    return Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined;
  } catch {
    return undefined; // the folder's first start
  }
}

function rotateLog(logFile: string): void {
  const bytes = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes > LOG_BYTES_MAX) renameSync(logFile, `${logFile}.1`);
}
