/**
 * Kills a process when this process is gone, however it ended. A helper in its own session reads a
 * pipe whose only writer is this process. The kernel closes the pipe even after `kill -9`, and the
 * helper then ends the process that it guards: SIGTERM, then SIGKILL after a few seconds.
 *
 * Node cannot ask the kernel for this (`PR_SET_PDEATHSIG`), and exit handlers do not run on
 * SIGKILL. The helper is a shell, which takes 1 MB of memory (a Node process takes 40). On Windows,
 * which has none, it is a Node process. `ServerProcess`'s owner passes each server's pid as soon as
 * the server is spawned.
 */
import { spawn, type ChildProcess } from "node:child_process";
import type { Socket } from "node:net";

type WatchdogKind = "shell" | "node";

export interface Watchdog {
  /** Guards the process with this pid, instead of the one guarded before. */
  readonly guard: (pid: number) => void;
  /** Stops guarding and ends the helper. Call it when the guarded process has ended. */
  readonly release: () => void;
  /** The helper's own pid, for tests. Changes when the helper is restarted. */
  readonly pid: () => number | undefined;
}

/** A helper that dies is restarted. One that keeps dying means a broken machine. */
const RESTARTS_MAX = 5;

/** No process has this pid. */
const NOTHING = 0;

// Each line is the pid to guard from now on. The end of input means that the writer is gone.
const SHELL_SCRIPT = `
trap '' HUP INT TERM
pid=${NOTHING}
while read -r next; do pid=$next; done
[ "$pid" -gt 0 ] || exit 0
kill -TERM "$pid" 2>/dev/null || exit 0
for second in 1 2 3 4 5; do sleep 1; kill -0 "$pid" 2>/dev/null || exit 0; done
kill -KILL "$pid" 2>/dev/null
`;

const NODE_SCRIPT = `
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) process.on(signal, () => {});
let text = "";
process.stdin.on("data", (more) => { text += more; });
process.stdin.on("error", () => {});
process.stdin.on("close", () => {
  const pid = Number(text.trim().split("\\n").at(-1));
  if (!(pid > 0)) process.exit();
  const send = (signal) => { try { process.kill(pid, signal); } catch { process.exit(); } };
  send("SIGTERM");
  setTimeout(() => send("SIGKILL"), 5000);
  setInterval(() => send(0), 250);
});
`;

/** Starts a helper. `kind` is for tests; the default fits the platform. */
export function startWatchdog(
  kind: WatchdogKind = process.platform === "win32" ? "node" : "shell",
): Watchdog {
  let guarded = NOTHING;
  let released = false;
  let restarts = 0;
  let helper: ChildProcess | undefined;

  const send = (): void => {
    helper?.stdin?.write(`${guarded}\n`);
  };
  const start = (): void => {
    const child = spawnHelper(kind);
    helper = child;
    child.once("error", () => undefined); // no helper could be started: `exit` does not follow
    child.stdin?.once("error", () => undefined); // a dead helper; `exit` follows and starts another
    child.once("exit", () => {
      if (released || helper !== child || restarts >= RESTARTS_MAX) return;
      restarts += 1;
      start();
      send();
    });
  };
  start();

  return {
    guard: (pid) => {
      guarded = pid;
      send();
    },
    release: () => {
      released = true;
      guarded = NOTHING;
      send();
      helper?.stdin?.end();
    },
    pid: () => helper?.pid,
  };
}

function spawnHelper(kind: WatchdogKind): ChildProcess {
  const [program, args] =
    kind === "shell" ? ["/bin/sh", ["-c", SHELL_SCRIPT]] : [process.execPath, ["-e", NODE_SCRIPT]];
  const child = spawn(program, args, {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // its own session: neither Ctrl-C nor a closed terminal reaches it
    windowsHide: true,
    cwd: process.platform === "win32" ? process.cwd() : "/", // keeps no folder in use
    env: kind === "shell" ? { PATH: process.env["PATH"] ?? "/usr/bin:/bin" } : process.env,
  });
  child.unref();
  // A child's stdin is a socket on every platform, though its type says only Writable.
  (child.stdin as Socket | null)?.unref();
  return child;
}
