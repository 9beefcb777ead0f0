/** A process whose log nobody reads: a turn that holds the thread ends its worker all the same. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { startWatchdog } from "../../services/natsServer/Watchdog.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("./spinModule.ts", import.meta.url));
const TIMEOUT_MS = 90_000;

test("a turn that holds the thread ends its worker, although the log's reader has ended", async () => {
  const folder = tempFolder("unread-log");
  const [port, admin] = [await pickPort(), await pickPort()];
  const url = `http://127.0.0.1:${port}/agents/holder/a`;
  const args = [
    "dev", MODULE, "--data", join(folder.path, "data"),
    "--port", String(port), "--admin-port", String(admin),
  ]; // prettier-ignore
  const control = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  const watchdog = startWatchdog();
  watchdog.guard(control.pid!);
  try {
    control.stdout.resume();
    control.stderr.resume();
    await pollUntil("the agent answers", () => answers(url), { timeoutMs: TIMEOUT_MS });
    const [worker] = workersOf(control.pid!);
    control.stdout.destroy();
    control.stderr.destroy();
    await fetch(url, { method: "POST" }).catch(() => undefined);
    await pollUntil("another worker runs", () => !workersOf(control.pid!).includes(worker!), {
      timeoutMs: TIMEOUT_MS,
    });
    expect(control.exitCode).toBe(null);
    await pollUntil("the agent answers again", () => answers(url), { timeoutMs: TIMEOUT_MS });
  } finally {
    const ended = new Promise((resolve) => control.once("exit", resolve));
    control.kill("SIGTERM");
    await ended;
    watchdog.release();
    folder.remove();
  }
});

const answers = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false; // not listening yet
  }
};

const workersOf = (pid: number): ReadonlyArray<string> =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8")
    .split(" ")
    .filter((child) => child !== "" && commandOf(child).includes("\0worker"));

const commandOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // it has ended
  }
};
