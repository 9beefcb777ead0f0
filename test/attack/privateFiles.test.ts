/** Another user of the machine looks into the data folder of `agents dev`. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("../console/noteModule.ts", import.meta.url));

let folder: TempFolder | undefined;
let dev: ChildProcess | undefined;
afterEach(async () => {
  const ended = dev !== undefined && once(dev, "close");
  dev?.kill();
  await ended;
  folder?.remove();
});

/** Paths below `root` that another user could open if the folders above could be entered. */
function readable(root: string, path = root): string[] {
  const { mode } = statSync(path);
  if ((mode & 0o077) === 0) return [];
  const below = statSync(path).isDirectory()
    ? readdirSync(path).flatMap((name) => readable(root, join(path, name)))
    : [];
  return [relative(root, path), ...below];
}

async function useDev(data: string): Promise<void> {
  const args = [MAIN, "dev", MODULE, "--data", data, "--port", "0", "--admin-port", "0"];
  const env = { PATH: process.env["PATH"] ?? "", NATS_SERVER: process.env["NATS_SERVER"] ?? "" };
  dev = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  let told = "";
  dev.stdout!.on("data", (text: Buffer) => (told += String(text)));
  await pollUntil("dev serves", () => told.includes("Ctrl-C") || { done: false, saw: told });
}

test("a data folder is accessible to its owner only", async () => {
  folder = tempFolder("private");
  const data = join(folder.path, "data");
  await useDev(data);
  expect(readable(data)).toEqual([]);
  expect(readdirSync(data).toSorted()).toEqual([
    "console-token",
    "dev-secrets.env",
    "dev.json",
    "hosts",
    "nats",
  ]);
});

test("in a folder that others may list, they can't read agents' files", async () => {
  folder = tempFolder("private");
  const data = join(folder.path, "data");
  for (const name of ["", "nats", "hosts", "hosts/0"]) {
    mkdirSync(join(data, name), { recursive: true });
    chmodSync(join(data, name), 0o755);
  }
  await useDev(data);
  expect(readable(data)).toEqual(["", "hosts"]);
});
