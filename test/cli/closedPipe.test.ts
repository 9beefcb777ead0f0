/**
 * A reader of a command's output that goes away, as `head` does. Exit codes say what scripts need:
 * that the output is not whole, and what the command itself ended with.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";

const MAIN = new URL("../../dist/services/cli/main.js", import.meta.url).pathname;

/** Runs a command, and closes a pipe of its before it can write. */
async function exitCode(args: string[], closed: "stdout" | "stderr"): Promise<unknown> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  child[closed].destroy();
  let said = "";
  const read = closed === "stdout" ? child.stderr : child.stdout;
  read.on("data", (text) => (said += String(text)));
  const [code] = (await once(child, "close")) as [number];
  expect(said).not.toContain("EPIPE");
  return code;
}

test("a closed stdout ends a command as SIGPIPE would", async () => {
  expect(await exitCode(["--help"], "stdout")).toBe(141);
});

test("a closed stderr changes no exit code", async () => {
  expect(await exitCode(["nonsense"], "stderr")).toBe(2);
});
