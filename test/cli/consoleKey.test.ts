/** `o` and Enter in the terminal of `agents dev`, at a real one (util-linux's `script`). */
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { DevProcess } from "./DevProcess.ts";

const MODULE = `
  import { Agent } from "agents";
  export class Repo extends Agent { static says = "here"; }
`;
const ARGS = ["dev", "--port", "0", "--admin-port", "0"];
const CTRL_C = "\u0003";

let folder: TempFolder;
let dev: DevProcess | undefined;
/** Of a background process, which outlives its terminal. */
let group: number | undefined;
const at = (name: string): string => join(folder.path, name);
const opened = (): string => readFileSync(at("opened"), "utf8").trim();

beforeEach(() => {
  folder = tempFolder("console-key");
  writeFileSync(at("server.ts"), MODULE);
  writeFileSync(at("opened"), "");
  writeFileSync(at("browser"), `#!/bin/sh\necho "$1" >> ${at("opened")}\n`);
  chmodSync(at("browser"), 0o700);
});
afterEach(async () => {
  if (group !== undefined) process.kill(-group, "SIGKILL");
  group = undefined;
  await dev?.kill();
  folder.remove();
});

const start = (shell: (command: string) => string): DevProcess =>
  (dev = new DevProcess(ARGS, folder.path, { BROWSER: at("browser") }, shell));

it("the key opens the console; Ctrl-C stays the terminal's", async () => {
  const own = start((command) => `exec ${command}`);
  await own.printed(/Press o and Enter to open the console/);
  own.child.stdin!.write("what\no\n");
  const url = await pollUntil("the browser", () => {
    const found = opened();
    return found === "" ? { done: false, saw: own.out } : { done: true, value: found };
  });
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:1\/#token=\S+$/);
  own.child.stdin!.write(CTRL_C);
  expect(await own.ended).toBe(0);
  expect(own.out).toContain("Stopped.");
});

it("a background process reads no keys, and keeps running", async () => {
  const own = start((command) => `bash -mc '${command} & echo "group $!"; wait'`);
  group = Number(await own.printed(/^group (\d+)/m));
  const url = await own.printed(/^ {2}url +(\S+)/m);
  own.child.stdin!.write("o\n");
  // A process that read its terminal now would be stopped, and answer nothing.
  for (let n = 0; n < 3; n++) expect(await (await fetch(url)).json()).toMatchObject({ says: "here" }); // prettier-ignore
  expect(opened()).toBe("");
});
