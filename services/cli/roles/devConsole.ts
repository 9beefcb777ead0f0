/**
 * The console of `agents dev`, which the control process serves. Its URL stays the same at the next
 * start if the port is free. Its connection to the broker is opened at the first request.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { ConsoleRefusal, type ConsoleSource } from "../../../core/console/ConsoleSource.ts";
import { once } from "../../../core/retry/once.ts";
import type { LogShape } from "../../../core/telemetry/Log.ts";
import type { Joins, ServedConsole } from "../../wiring/Joins.ts";
import type { Terminal } from "../terminal/Terminal.ts";
import { findDev } from "../serving/devFile.ts";

/** Too many to guess. */
const TOKEN_BYTES = 24;

/** Pause between two checks for a server that is starting. */
const AGAIN_MS = 1_000;

interface DevConsoleOptions {
  readonly dataFolder: string;
  /** The preferred port. If it is taken, any other is used. */
  readonly port: number;
  /** The module that the page reruns the past with, as a command line names it. */
  readonly module: string;
  readonly log: LogShape;
}

interface DevConsole {
  /** Includes the token, in a part that browsers do not send. */
  readonly url: string;
  /** Calling it again returns the same promise. */
  readonly stop: () => Promise<void>;
}

/** Undefined if the console can't be served: the log says why, and the server runs on. */
export async function serveDevConsole(
  joins: Joins,
  terminal: Terminal,
  options: DevConsoleOptions,
): Promise<DevConsole | undefined> {
  const { dataFolder, log } = options;
  const token = keptToken(dataFolder);
  const lazy = lazySource(joins, terminal, options);
  const serve = (port: number): Promise<ServedConsole> =>
    joins.serveConsole(lazy.source, {
      hostname: "127.0.0.1",
      port,
      token,
      publicHost: undefined,
      time: joins.time,
      log,
    });
  try {
    const served = await serve(options.port).catch(() => serve(0));
    const end = async (): Promise<void> => {
      await served.stop();
      await lazy.close();
    };
    let ended: Promise<void> | undefined;
    return {
      url: `http://127.0.0.1:${served.port}/#token=${token}`,
      stop: () => (ended ??= end()),
    };
  } catch (error) {
    log.warn("the console can't be served", { error: String(error) });
    return undefined;
  }
}

/** Keeps the token in a file of its owner only: an open page still works after a restart. */
function keptToken(dataFolder: string): string {
  const path = join(dataFolder, "console-token");
  try {
    const kept = readFileSync(path, "utf8").trim();
    if (kept !== "") return kept;
  } catch {
    // The first start.
  }
  const token = randomBytes(TOKEN_BYTES).toString("base64url");
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  writeFileSync(path, `${token}\n`, { mode: 0o600 });
  return token;
}

/** Connects to the broker at the first request. */
function lazySource(
  joins: Joins,
  terminal: Terminal,
  { dataFolder, module, log }: DevConsoleOptions,
) {
  const opened = once(async () => {
    const found = findDev(dataFolder);
    if (found._tag !== "Running")
      throw new ConsoleRefusal(503, "The server is starting. Try again in a moment.");
    const { natsUrl, namespace } = found.dev;
    const target = { natsUrl, namespace };
    const [{ consoleSource }, { ownProcess }, ports] = await Promise.all([
      import("./consoleSource.ts"),
      import("./ownProcess.ts"),
      joins.openReader(target, { log }),
    ]);
    const own = ownProcess(joins, target);
    const parts = { ports, terminal, time: joins.time, modules: [module], own, dataFolder };
    return { ports, source: consoleSource(parts) };
  });
  const follow: ConsoleSource["follow"] = (wanted, tell) => {
    let stop = (): void => undefined;
    let ended = false;
    const begin = (): void =>
      void opened.get().then(
        ({ source }) => {
          if (!ended) stop = source.follow(wanted, tell);
        },
        () => {
          if (!ended) stop = joins.time.after(AGAIN_MS, begin);
        },
      );
    begin();
    return () => {
      ended = true;
      stop();
    };
  };
  // Every other method is forwarded to the source, which is opened first.
  const source = new Proxy({ follow } as ConsoleSource, {
    get: (own, name: keyof ConsoleSource) =>
      name === "follow"
        ? own.follow
        : async (...args: ReadonlyArray<never>) => {
            const { source: real } = await opened.get();
            return (real[name] as (...given: ReadonlyArray<never>) => Promise<unknown>)(...args);
          },
  });
  return {
    source,
    close: async () => {
      await opened.made?.then(
        ({ ports }) => ports.close(),
        () => undefined,
      );
    },
  };
}

/** Opens a URL in the user's browser, on a best-effort basis. */
export function openInBrowser(url: string): void {
  const [command, ...args] =
    process.platform === "darwin"
      ? ["open"]
      : process.platform === "win32"
        ? ["cmd", "/c", "start", '""']
        : [process.env["BROWSER"] || "xdg-open"];
  const child = spawn(command!, [...args, url], { detached: true, stdio: "ignore" });
  child.once("error", () => undefined);
  child.unref();
}
