/** Text from outside never controls a terminal: escaping, printing, commands that print names. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { BrokerUnavailable, NotPermitted } from "../../core/bus/Bus.ts";
import { oneLine, printable } from "../../core/telemetry/printable.ts";
import { processTerminal } from "../../services/cli/terminal/Terminal.ts";
import { processLog } from "../../services/node/ProcessLog.ts";
import { explain } from "../../services/wiring/joinCommands.ts";
import { CliFixture } from "./fixture.ts";

const HOSTILE = "\u001b[2J\u009b31m\u0007\u202eevil\u2066\r\u007f\u0000";
const ESCAPED = "\\u001b[2J\\u009b31m\\u0007\\u202eevil\\u2066\\u000d\\u007f\\u0000";
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/;

describe("printable text", () => {
  it("escapes control and text-direction characters as JSON does, and changes nothing else", () => {
    expect(printable(HOSTILE)).toBe(ESCAPED);
    expect(printable("ä\tעברית 日本 👩‍💻\n")).toBe("ä\tעברית 日本 👩‍💻\n");
    expect(JSON.parse(printable(JSON.stringify({ a: HOSTILE })))).toEqual({ a: HOSTILE });
    for (let code = 0; code < 0x10000; code++)
      expect(CONTROLS.test(printable(String.fromCharCode(code)))).toBe(false);
  });

  it("within one line also escapes line feeds", () => {
    expect(oneLine("a\nb\tc\u2028d")).toBe("a\\u000ab\\u0009c\\u2028d");
  });
});

describe("escaping of output", () => {
  it("the terminal escapes results and errors", () => {
    const written: string[] = [];
    const spies = [process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, "write").mockImplementation((text) => written.push(String(text)) > 0),
    );
    const terminal = processTerminal();
    terminal.out(HOSTILE);
    terminal.err(HOSTILE);
    for (const spy of spies) spy.mockRestore();
    expect(written).toEqual([`${ESCAPED}\n`, `${ESCAPED}\n`]);
  });

  it("the log escapes both formats, and no field can start another line", () => {
    const lines: string[] = [];
    for (const format of ["text", "json"] as const)
      processLog({ format, write: (line) => lines.push(line) }).warn("a name", {
        name: `${HOSTILE}\n12:00:00 ERROR forged`,
      });
    expect(lines.join("")).not.toMatch(CONTROLS);
    expect(lines[0]).toContain(`${ESCAPED}\n    12:00:00 ERROR forged\n`);
    expect(JSON.parse(lines[1]!)).toMatchObject({ name: `${HOSTILE}\n12:00:00 ERROR forged` });
  });

  it("the log shows module paths without the loader's suffix", () => {
    const lines: string[] = [];
    const log = processLog({ format: "json", write: (line) => lines.push(line) });
    log.error("failed", { error: "Error: x\n    at f (file:///app/a.ts?agents-load=12:3:4)" });
    expect(lines[0]).toContain("(file:///app/a.ts:3:4)");
  });

  it("a name with a line feed stays on one line in lists, histories and dead letters", async () => {
    const cli = new CliFixture();
    const name = "a\n    9 events, last 9 at now, host-1";
    await cli.append("Note", name, [{ error: "one\ntwo" }]);
    const listed = await cli.run(["list", "--nats", "nats://x"]);
    expect(listed.out.split("\n").filter((line) => line.includes("9 events"))).toEqual([
      "Note a\\u000a    9 events, last 9 at now, host-1",
    ]);
    expect((await cli.run(["history", "Note", name, "--nats", "nats://x"])).out).toContain(
      "one\\u000atwo",
    );
  });
});

const MAIN = new URL("../../dist/services/cli/main.js", import.meta.url).pathname;

/** Runs a command, and closes a pipe of its before it can write. */
async function exitCode(args: string[], closed: "stdout" | "stderr"): Promise<unknown> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  child[closed].destroy();
  const { code, said } = await endOf(child, closed === "stdout" ? child.stderr : child.stdout);
  expect(said).not.toContain("EPIPE");
  return code;
}

/** Runs a command one of whose outputs is a file on a full disk. */
async function onFullDisk(args: string[], full: "stdout" | "stderr") {
  const disk = openSync("/dev/full", "w");
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: full === "stdout" ? ["ignore", disk, "pipe"] : ["ignore", "pipe", disk],
  });
  closeSync(disk);
  return endOf(child, (full === "stdout" ? child.stderr : child.stdout)!);
}

async function endOf(child: ChildProcess, read: Readable) {
  let said = "";
  read.on("data", (text) => (said += String(text)));
  const [code] = (await once(child, "close")) as [number];
  return { code, said };
}

describe("a failed command", () => {
  it("prints the remedy when the machine lacks a resource, and the stack of a defect", async () => {
    const short = Object.assign(new Error("EMFILE: too many open files, open 'a'"), { code: "EMFILE" }); // prettier-ignore
    expect(explain(short)).toMatch(/^EMFILE: too many open files, open 'a'\. Allow more .* again$/);
    expect(explain(new Error("a defect"))).toMatch(/^Error: a defect\n +at /);
  });

  it("prints the path of an unusable file or folder, without a stack", async () => {
    const file = fileURLToPath(import.meta.url);
    const tried = await mkdir(file, { recursive: true }).catch(explain);
    expect(tried).toBe(
      `EEXIST: file already exists, mkdir '${file}'. Use another path, or change what is there`,
    );
  });

  it("says that a file system may be read-only where Node names a missing folder", () => {
    const path = "/mnt/backups/new";
    const tried = Object.assign(
      new Error(`ENOENT: no such file or directory, mkdir '${path}'`),
      { code: "ENOENT", syscall: "mkdir", path },
    ); // prettier-ignore
    expect(explain(tried)).toMatch(
      /^ENOENT: .*'\. The file system may be read-only: use another path/,
    );
  });

  it("tells a broker that refuses the login from one that can't be reached", () => {
    const message = "the login may not use $JS.API.STREAM.MSG.DELETE.agents_DEAD";
    expect(explain(new NotPermitted({ message }))).toBe(
      `The broker refuses it: ${message}. Is it the login for this command (deploy/nats/permissions.conf)?`,
    );
    expect(explain(new BrokerUnavailable({ message: "x" }))).toBe("The broker can't be reached: x");
  });

  it("names the option of an unreadable login file, instead of an unreachable broker", async () => {
    const cli = new CliFixture();
    for (const flag of ["--nats-creds", "--nats-nkey", "--nats-ca", "--nats-cert", "--nats-key"])
      expect(await cli.run(["list", "--nats", "nats://x", flag, "missing"])).toMatchObject({
        code: 2,
        err: expect.stringContaining(`${flag} missing can't be read: ENOENT`) as string,
      });
    expect(cli.opened).toBe(0);
  });
});

describe("a reader that goes away, as head does", () => {
  it("that closes stdout ends a command as SIGPIPE would", async () => {
    expect(await exitCode(["--help"], "stdout")).toBe(141);
  });

  it("that closes stderr changes no exit code", async () => {
    expect(await exitCode(["nonsense"], "stderr")).toBe(2);
  });
});

// A device of Linux on which every write fails with ENOSPC.
describe.runIf(existsSync("/dev/full"))("a full disk", () => {
  it("of the results ends a command with one line and exit code 1", async () => {
    expect(await onFullDisk(["--help"], "stdout")).toEqual({
      code: 1,
      said: expect.stringMatching(
        /^agents: The output can't be written, and is incomplete: ENOSPC[^\n]*\n$/,
      ) as string,
    });
  });

  it("of the messages changes no exit code", async () => {
    expect(await onFullDisk(["nonsense"], "stderr")).toEqual({ code: 2, said: "" });
  });
});
