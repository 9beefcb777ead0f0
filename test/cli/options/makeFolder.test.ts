/** Folders that people name on the command line. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeFolder } from "../../../services/cli/terminal/makeFolder.ts";
import { tempFolder } from "../../kit/tempFolder.ts";

test("a folder is created with all above it, and one that exists stays as it is", () => {
  const folder = tempFolder("made");
  const path = join(folder.path, "a", "b");
  makeFolder(path, 0o700);
  makeFolder(path, 0o755);
  expect(statSync(path).mode & 0o777).toBe(0o700);
  folder.remove();
});

test.runIf(process.platform === "linux")("a folder that can't be created fails", () => {
  expect(() => makeFolder("/proc/x/y")).toThrow(/ENOENT/);
});
