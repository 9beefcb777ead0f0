/**
 * `o` and Enter in the terminal of `agents dev` open the console.
 *
 * 1. The terminal's mode is not changed: lines are read, not keys. Ctrl-C, Ctrl-Z and Ctrl-\
 *    therefore work as usual, and there is nothing to restore.
 * 2. A process in the background must not read its terminal: the kernel would stop it (SIGTTIN).
 *    Reading therefore begins only in the foreground, and pauses when the process continues in the
 *    background after Ctrl-Z.
 */
import { execFile } from "node:child_process";
import { createInterface } from "node:readline";
import type { ReadStream } from "node:tty";

/** Returns the function that stops listening. Does nothing if `input` is not a terminal. */
export function onConsoleKey(input: ReadStream, open: () => void): () => void {
  if (!input.isTTY) return () => undefined;
  const lines = createInterface({ input, terminal: false });
  lines.on("line", (line) => {
    if (line.trim().toLowerCase() === "o") open();
  });
  lines.pause();
  let ended = false;
  const look = (): void =>
    isInForeground((isSo) => {
      if (ended) return;
      if (isSo) lines.resume();
      else lines.pause();
      input.unref();
    });
  look();
  // Sent by `fg` and `bg`.
  process.on("SIGCONT", look);
  return () => {
    ended = true;
    process.off("SIGCONT", look);
    lines.close();
    input.unref();
  };
}

/** Rule 2. Every `ps` marks a foreground process with a plus. Without `ps`, nothing is read. */
function isInForeground(tell: (isSo: boolean) => void): void {
  execFile("ps", ["-o", "stat=", "-p", String(process.pid)], (error, out) =>
    tell(error === null && out.includes("+")),
  );
}
