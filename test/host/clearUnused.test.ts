/** Folders of hosts that are not started any more are emptied; others keep what they have. */
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { clearUnused } from "../../services/lock/clearUnused.ts";
import { lockDataFolder } from "../../services/lock/DataFolderLock.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

test("a folder that nobody has used at two looks is emptied, and one that is used stays", async () => {
  const parent = tempFolder("hosts");
  /** Begins a look. */
  let look = (): void => undefined;
  let looks = 0;
  const time = {
    after: (_ms: number, f: () => void) => {
      looks++;
      look = f;
      return () => undefined;
    },
  };
  const told: string[] = [];
  const log = { info: (text: string) => told.push(text), warn: (text: string) => told.push(text) };
  const imageOf = (name: string): string => join(parent.path, name, "images", "a");
  for (const name of ["0", "1", "2"]) {
    mkdirSync(join(parent.path, name, "images"), { recursive: true });
    writeFileSync(imageOf(name), "an agent");
  }
  const own = await lockDataFolder(join(parent.path, "0"));
  const end = clearUnused(parent.path, { time, log });
  const oneLook = async (): Promise<void> => {
    const before = looks;
    look();
    await pollUntil("the end of the look", () => looks > before);
  };
  try {
    await oneLook();
    const restarted = await lockDataFolder(join(parent.path, "1"));
    await oneLook();
    restarted.release();
    const kept = ["0", "1", "2"].filter((name) => existsSync(imageOf(name)));
    expect(kept).toEqual(["0", "1"]);
    expect(told).toEqual(["the folder of a host that is not started any more was emptied"]);
    await oneLook();
    expect(existsSync(imageOf("1"))).toBe(true);
    await oneLook();
    expect(existsSync(imageOf("1"))).toBe(false);
    expect(existsSync(imageOf("0"))).toBe(true);
    await lockDataFolder(join(parent.path, "2")).then((lock) => lock.release());
  } finally {
    end();
    own.release();
    parent.remove();
  }
});
