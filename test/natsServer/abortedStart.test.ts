/** Programs that are running while a nats-server is found or started, when we are to stop. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { runProgram } from "../../services/natsServer/runProgram.ts";
import { openBroker } from "../../services/wiring/joinBroker.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { pollUntil } from "../kit/poll.ts";
import { collectingLog } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";

afterEach(() => vi.unstubAllEnvs());

test.each([
  ["is looked at", ""],
  ["starts", '[ "$1" = --version ] && echo "nats-server: v9.9.9" && exit'],
])("a server that %s is ended at once when its process stops", async (_, first) => {
  const folder = tempFolder("aborted-start");
  const binary = join(folder.path, "nats-server");
  const pidFile = join(folder.path, "pid");
  const script = `#!/bin/sh\n${first}\necho $$ > ${pidFile}\nexec sleep 600\n`;
  writeFileSync(binary, script, { mode: 0o700 });
  vi.stubEnv("NATS_SERVER", binary);
  const stop = new AbortController();
  const settings = {
    natsUrl: undefined,
    dataFolder: folder.path,
    log: collectingLog(),
    progress: () => {},
    sealed: undefined,
  };
  const opening = openBroker(settings, stop.signal);
  opening.catch(() => undefined);
  const pid = await pollUntil(
    "the server's process",
    () => existsSync(pidFile) && Number(readFileSync(pidFile, "utf8")),
  );
  stop.abort();
  await expect(opening).rejects.toThrow(/interrupt/);
  await pollUntil("its end", () => identityOf(pid) === undefined);
  folder.remove();
});

test("a program that is given up ends with its own children", async () => {
  const folder = tempFolder("aborted-program");
  const pidFile = join(folder.path, "pid");
  const stop = new AbortController();
  const script = `sleep 600 & echo $! > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; wait`;
  const end = runProgram("/bin/sh", ["-c", script], { timeoutMs: 300_000, signal: stop.signal });
  const pid = await pollUntil("its child", () => {
    return existsSync(pidFile) && Number(readFileSync(pidFile, "utf8"));
  });
  stop.abort();
  expect(await end).toEqual({ kind: "failed", why: "interrupted" });
  await pollUntil("the child's end", () => identityOf(pid) === undefined);
  folder.remove();
});

test("a terminal's Ctrl-C does not reach a program before it reaches us", async () => {
  const own = await runProgram("/bin/sh", ["-c", "ps -o pgid= -p $$; echo $$"], {
    timeoutMs: 90_000,
  });
  const [group, pid] = own.kind === "exited" ? own.stdout.trim().split(/\s+/) : [own.why];
  expect(group).toBe(pid);
});
