/**
 * Runs the program that makes a dev server reachable from outside (`agents dev --tunnel`), and
 * finds the public URL in its output. Depends on no particular tunnel program. The control process
 * of `dev` owns it, so that the URL stays the same when the worker restarts.
 */
import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import type { TimeShape } from "../../../core/time/Time.ts";
import { failed, usage } from "../terminal/CliError.ts";

export interface Tunnel {
  /** Scheme and host, e.g. `https://a-b.trycloudflare.com`. */
  readonly url: string;
  /** Ends the program. Resolves when it has ended. */
  readonly close: () => Promise<void>;
}

interface TunnelOptions {
  /** A URL, or a command for the shell. `{url}` and `{port}` in it are the local server's. */
  readonly tunnel: string;
  readonly port: number;
  readonly time: TimeShape;
  /** Receives a line if the program ends later without being asked to. */
  readonly warn: (line: string) => void;
}

/** Tunnel programs first connect to a server of their own, and some log in. */
const URL_TIMEOUT_MS = 60_000;
/** A program that ignores SIGTERM is killed after this time. */
const STOP_TIMEOUT_MS = 3_000;
/** Enough to show why a program failed. */
const OUTPUT_CHARS_MAX = 8_192;

const ORIGIN = /^https?:\/\/[^/?#\s]+\/?$/;

/** Rejects with `CliError` if the program can't be run, ends, or prints no public URL in time. */
export async function openTunnel(options: TunnelOptions): Promise<Tunnel> {
  const { tunnel, time, warn } = options;
  if (ORIGIN.test(tunnel)) return { url: tunnel.replace(/\/$/, ""), close: async () => undefined };
  const program = startProgram(commandOf(options), time);
  let isClosing = false;
  const close = (): Promise<void> => {
    isClosing = true;
    return program.close();
  };
  try {
    const url = await printedUrl(program, time);
    void program.ended.then((why) => {
      if (!isClosing)
        warn(`The tunnel program has ended (${why}). Requests to ${url} no longer arrive.`);
    });
    return { url, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Throws `CliError`. */
function commandOf({ tunnel, port }: TunnelOptions): string {
  if (tunnel.trim() === "" || /^https?:\/\//i.test(tunnel))
    throw usage(
      `--tunnel "${tunnel}" is neither the command of a tunnel program nor a URL without a path. Examples: "cloudflared tunnel --url {url}", https://dev.example.com`,
    );
  if (port === 0) throw failed("--tunnel needs a fixed port. Set one with --port.");
  return tunnel.replaceAll("{url}", `http://127.0.0.1:${port}`).replaceAll("{port}", String(port));
}

interface Program {
  readonly command: string;
  readonly outputs: ReadonlyArray<Readable>;
  /** Resolves to why it has ended, or was not started. */
  readonly ended: Promise<string>;
  readonly close: () => Promise<void>;
}

function startProgram(command: string, time: TunnelOptions["time"]): Program {
  // A separate process group: the shell's children end with it.
  const child = spawn(command, { shell: true, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(`it ended with ${signal ?? `code ${code}`}`));
  });
  const kill = (signal: NodeJS.Signals): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // It has ended.
    }
  };
  const atExit = (): void => kill("SIGTERM");
  process.once("exit", atExit);
  const close = async (): Promise<void> => {
    process.off("exit", atExit);
    kill("SIGTERM");
    const cancel = time.after(STOP_TIMEOUT_MS, () => kill("SIGKILL"));
    await ended;
    cancel();
  };
  return { command, outputs: [child.stdout, child.stderr], ended, close };
}

/** Rejects with `CliError`. */
const printedUrl = (
  { command, outputs, ended }: Program,
  time: TunnelOptions["time"],
): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = "";
    const refuse = (why: string): void =>
      reject(
        failed(`The tunnel program printed no public URL: ${why}.\n  ${command}\n${text.trim()}`),
      );
    const cancel = time.after(URL_TIMEOUT_MS, () =>
      refuse(`nothing in ${URL_TIMEOUT_MS / 1_000} s`),
    );
    void ended.then((why) => {
      cancel();
      refuse(why);
    });
    const read = (chunk: Buffer): void => {
      text = (text + chunk.toString()).slice(-OUTPUT_CHARS_MAX);
      const found = publicUrl(text);
      if (found === undefined) return;
      cancel();
      resolve(found);
    };
    for (const output of outputs) output.on("data", read);
  });

/** What colours text on a terminal. */
// oxlint-disable-next-line no-control-regex
const COLOURS = /\x1b\[[0-9;]*[A-Za-z]/g;
/** A host, and not the beginning of a longer URL: what follows is no part of one. */
const HOST_URL = /(https:\/\/[A-Za-z0-9.:-]+)\/?(?=[^\p{L}\p{N}_.:/?#%@~&=+-])/gu;

/**
 * Returns the first complete URL that has only a host, which is not this machine. Tunnel programs
 * also print links to documentation, but those have a path.
 */
export function publicUrl(text: string): string | undefined {
  for (const [, found = ""] of text.replace(COLOURS, " ").matchAll(HOST_URL)) {
    const url = found.replace(/[.:]+$/, ""); // of the sentence around it
    if (!URL.canParse(url)) continue;
    const { hostname, origin } = new URL(url);
    const isLocal = /^(?:localhost|127\.|0\.0\.0\.0)/.test(hostname);
    if (!isLocal && hostname.includes(".")) return origin;
  }
  return undefined;
}
