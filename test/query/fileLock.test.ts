/** One process at a time works on a folder's files, also where another was killed. */
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { withFileLock, type LockOptions } from "../../services/cli/agents/withFileLock.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

let folder: TempFolder;
let lock: string;
const held = (): LockOptions => ({
  path: lock,
  waitMs: 120_000,
  busy: (holder) => `${holder} works on it`,
});
beforeEach(() => {
  folder = tempFolder("lock");
  lock = join(folder.path, "lock");
});
afterEach(() => folder.remove());

test("waiting processes enter one after another, and a failure lets the next in", async () => {
  let inside = 0;
  const use = (fails: boolean) =>
    withFileLock(held(), machineTime, async () => {
      expect(++inside).toBe(1);
      await new Promise((resolve) => setImmediate(resolve));
      inside--;
      if (fails) throw new Error("it failed");
      return "done";
    });
  const all = await Promise.allSettled([use(false), use(true), use(false)]);
  expect(all.map(({ status }) => status).toSorted()).toEqual([
    "fulfilled",
    "fulfilled",
    "rejected",
  ]);
  expect(existsSync(lock)).toBe(false);
});

test.each([
  ["of a process that has ended", () => spawnSync(process.execPath, ["-e", ""]).pid],
  ["whose pid is another process's by now", () => process.pid],
])("a lock %s is taken over", async (_, pid) => {
  writeFileSync(lock, JSON.stringify({ holder: { pid: pid(), startedAt: "before" } }));
  expect(await withFileLock(held(), machineTime, async () => "in")).toBe("in");
});

test("a lock of an older release contains only the pid", async () => {
  writeFileSync(lock, String(process.ppid));
  const taken = withFileLock({ ...held(), waitMs: 0 }, machineTime, async () => "in");
  await expect(taken).rejects.toThrow(`Process ${process.ppid} works on it`);
});

test("a lock without an owner is taken over", async () => {
  writeFileSync(lock, "");
  expect(await withFileLock(held(), machineTime, async () => "in")).toBe("in");
  expect(existsSync(lock)).toBe(false);
});

test("a lock of a live process is waited for, and its owner named when it takes too long", async () => {
  const time = new VirtualTime({ seed: 1 });
  writeFileSync(lock, JSON.stringify({ holder: identityOf(process.ppid) }));
  let said = "";
  const waiting = withFileLock(held(), time, async () => "in").catch((error: unknown) => {
    said = String(error);
  });
  await time.advance(60_000);
  expect(said).toBe("");
  await time.advance(120_000);
  await waiting;
  expect(said).toContain(`Process ${process.ppid} works on it`);
  const again = withFileLock(held(), time, async () => "in");
  rmSync(lock);
  await time.advance(1_000);
  expect(await again).toBe("in");
});
