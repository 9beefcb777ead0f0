/** The commands, as people run them, against a host in its own process and a real nats-server. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("./workModule.ts", import.meta.url));

let installation: Installation;

beforeAll(async () => {
  installation = await Installation.start({ shards: 2, module: MODULE, gateway: false });
  await (await installation.startHost("host")).ready();
});
afterAll(() => installation?.stop());

interface Running {
  out: string;
  err: string;
  readonly interrupt: () => void;
  readonly ended: Promise<number | null>;
}

function start(args: ReadonlyArray<string>): Running {
  const child = spawn(process.execPath, [MAIN, ...args], {
    env: { PATH: process.env["PATH"] ?? "", NATS_URL: installation.nats.url },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const running: Running = {
    out: "",
    err: "",
    interrupt: () => child.kill("SIGINT"),
    ended: new Promise((resolve) => child.once("close", resolve)),
  };
  child.stdout.on("data", (chunk: Buffer) => (running.out += String(chunk)));
  child.stderr.on("data", (chunk: Buffer) => (running.err += String(chunk)));
  return running;
}

/** Runs one command line to its end. */
async function agents(args: ReadonlyArray<string>) {
  const running = start(args);
  const code = await running.ended;
  return { code, out: running.out.trimEnd(), err: running.err.trimEnd() };
}

/** The same in this process, for frequent commands; resolves to the output. */
const ask = async (args: ReadonlyArray<string>): Promise<string> =>
  (await runCommand([...args, "--nats", installation.nats.url])).out;

const webhook = (key: string, body: string): Uint8Array =>
  encodeEnvelope(
    { key, kind: "webhook", time: Date.now(), provider: "test", method: "POST",
      url: "http://localhost/hook", headers: { authorization: "secret", "x-kept": "yes" } },
    Buffer.from(body),
  ); // prettier-ignore

/** Stores inputs as a gateway does. */
async function publish(name: string, ...inputs: ReadonlyArray<Uint8Array>): Promise<void> {
  const signal = AbortSignal.timeout(5_000);
  for (const input of inputs)
    await installation.ports.inbox.publish(agentId("WorkAgent", name), input, { signal });
}

const lines = (text: string) =>
  text === "" ? [] : text.split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);

/** The dead letters of the class, once there are as many. */
const deadLetters = (name: string, count: number) =>
  pollUntil(`${count} dead letters of ${name}`, async () => {
    const out = await ask(["dead", "list", "work-agent", "--json"]);
    const found = lines(out).filter((letter) => letter["name"] === name);
    return found.length === count ? { done: true, value: found } : { done: false, saw: found };
  });

const finished = (name: string, wanted: ReadonlyArray<string>) =>
  pollUntil(`${name} has done ${wanted.join()}`, async () => {
    const out = await ask(["call", "WorkAgent", name, "finished", "--json"]);
    return out === JSON.stringify(wanted) || { done: false, saw: out };
  });

describe("agents call", () => {
  it("creates the agent, runs the method and prints its result", async () => {
    expect(await agents(["call", "work-agent", "new one", "finished"])).toEqual({
      code: 0,
      out: "[]",
      err: "",
    });
    expect((await agents(["call", "work-agent", "new one", "allow"])).err).toContain("nothing");
    const state = await agents(["state", "work-agent", "new one", "--json"]);
    expect(JSON.parse(state.out)).toMatchObject({ state: { allowed: true } });
  });

  it("exits with 1 when the method throws, and prints name, message and cause", async () => {
    expect(await agents(["call", "WorkAgent", "thrower", "fail", "--json"])).toEqual({
      code: 1,
      out: "",
      err: "agents: WorkAgent/thrower.fail(): TypeError: it can't be\n  caused by RangeError: too far",
    });
    const none = await agents(["call", "WorkAgent", "thrower", "nope"]);
    expect(none).toMatchObject({
      code: 1,
      err: expect.stringContaining("does not exist") as string,
    });
  });

  it("without a host, times out and asks whether one is running", async () => {
    const other = ["--namespace", "empty"];
    await agents(["provision", "--shards", "1", ...other]);
    const { code, err } = await agents([
      "call", "WorkAgent", "x", "finished", "--timeout", "1", ...other,
    ]); // prettier-ignore
    expect(code).toBe(1);
    expect(err).toContain("Is a host running");
  });
});

describe("agents schedules", () => {
  it("lists schedules, the next one first", async () => {
    const before = Date.now();
    for (const [method, ...args] of [["planDaily"], ["plan", "3600", '"an hour"']] as const)
      expect(await agents(["call", "WorkAgent", "planner", method, ...args])).toMatchObject({
        code: 0,
      });
    const { out } = await agents(["schedules", "work-agent", "planner", "--json"]);
    const rows = lines(out);
    const dues = rows.map((row) => Date.parse(String(row["due"])));
    expect(dues).toEqual(dues.toSorted((a, b) => a - b));
    const hour = rows.find((row) => row["type"] === "delayed");
    expect(hour).toMatchObject({ callback: "work", payload: "an hour", running: false });
    const planned = Date.parse(String(hour!["due"])) - 3_600_000;
    // Schedules are due at whole seconds.
    expect(planned).toBeGreaterThan(before - 1_000);
    expect(planned).toBeLessThan(Date.now() + 1_000);
    expect(rows.find((row) => row["type"] === "cron")).toMatchObject({
      cron: "0 9 * * *",
      payload: { of: "the day" },
      misfire: "latest",
    });
    const people = await agents(["schedules", "work-agent", "planner"]);
    expect(people.out).toMatch(/Z {2}work\("an hour"\)\n {4}once, id \w+/);
    expect(people.err).toBe("2 schedules");
  });

  it("lists a row whose time is not in any calendar as one that never runs", async () => {
    await agents(["call", "WorkAgent", "beyond", "plan", "3600", "1"]);
    await agents(["call", "WorkAgent", "beyond", "putOff"]);
    const { out } = await agents(["schedules", "WorkAgent", "beyond", "--json"]);
    expect(lines(out)).toMatchObject([{ due: null, callback: "work" }]);
  });

  it("prints nothing for an agent without schedules, and exits with 3 for an unknown one", async () => {
    await agents(["call", "WorkAgent", "idle", "allow"]);
    expect(await agents(["schedules", "WorkAgent", "idle"])).toEqual({
      code: 0,
      out: "",
      err: "Nothing is scheduled.",
    });
    expect((await agents(["schedules", "WorkAgent", "nobody"])).code).toBe(3);
  });
});

describe("agents approvals", () => {
  it("lists open approvals of an agent or a class, and with --all the decided ones and by whom", async () => {
    for (const name of ["asker-1", "asker-2"])
      expect(await agents(["call", "WorkAgent", name, "ask", '"Pay 40?"'])).toMatchObject({
        code: 0,
      });
    expect(await agents(["call", "WorkAgent", "asker-2", "decide", "true", '"ann"'])).toMatchObject(
      {
        code: 0,
      },
    );
    const waiting = lines((await agents(["approvals", "work-agent", "--json"])).out);
    expect(waiting).toMatchObject([
      {
        class: "WorkAgent",
        name: "asker-1",
        approval: "pay",
        prompt: "Pay 40?",
        status: "waiting",
      },
    ]);
    const spanMs = Date.parse(String(waiting[0]!["expiresAt"])) - Date.parse(String(waiting[0]!["askedAt"])); // prettier-ignore
    expect(spanMs).toBeLessThanOrEqual(3_600_000);
    const all = await agents(["approvals", "WorkAgent", "asker-2", "--all"]);
    expect(all.out).toMatch(
      /^WorkAgent asker-2: pay: Pay 40\?\n {4}approved by ann at \S+Z \(as agreed\), id \S+$/,
    );
    expect(all.err).toBe("1 approval");
    expect(await agents(["approvals", "WorkAgent", "asker-2"])).toEqual({
      code: 0,
      out: "",
      err: "No open approvals.",
    });
    expect((await agents(["approvals", "WorkAgent", "nobody"])).code).toBe(3);
  });
});

describe("agents dead", () => {
  it("redrives a dead queue item as a queue item", async () => {
    await agents(["call", "WorkAgent", "queuer", "enqueue", '"item"']);
    const [letter] = await deadLetters("queuer", 1);
    expect(letter).toMatchObject({
      class: "WorkAgent",
      reason: "Error: not allowed yet",
      cause: { kind: "queue", type: "work" },
    });
    const id = String(letter!["id"]);
    expect((await agents(["dead", "show", id])).out).toContain('"item"');
    await agents(["call", "WorkAgent", "queuer", "allow"]);
    expect(await agents(["dead", "redrive", id])).toEqual({
      code: 0,
      out: `${id}  WorkAgent queuer: in the inbox again`,
      err: "",
    });
    await finished("queuer", ["item"]);
    await deadLetters("queuer", 0);
    const { out } = await agents(["history", "WorkAgent", "queuer", "--json"]);
    const ended = lines(out).filter((line) => "done" in line);
    const causes = ended.map((line) => line["cause"] as { kind: string; id: string });
    expect(causes.map(({ kind, id: key }) => `${kind} ${key.split(":")[0]}`)).toEqual([
      "queue queue",
      "queue redrive",
      "queue queue",
    ]);
    expect(ended.map((line) => line["dead"])).toEqual([true, undefined, undefined]);
  });

  it("redrives a dead schedule's run at once; if it dies again, that is a new letter", async () => {
    await agents(["call", "WorkAgent", "late", "plan", "0", '"planned"']);
    const [first] = await deadLetters("late", 1);
    expect(first).toMatchObject({ cause: { kind: "schedule", type: "work" } });
    await agents(["dead", "redrive", String(first!["id"])]);
    const second = await pollUntil("another letter", async () => {
      const [found] = await deadLetters("late", 1);
      return found!["id"] === first!["id"]
        ? { done: false, saw: found }
        : { done: true, value: found! };
    });
    await agents(["call", "WorkAgent", "late", "allow"]);
    await agents(["dead", "redrive", String(second["id"])]);
    await finished("late", ["planned"]);
    expect((await agents(["schedules", "WorkAgent", "late"])).err).toBe("Nothing is scheduled.");
  });

  it("redrives a dead webhook unchanged, and once however often it is redriven", async () => {
    await publish("hooked", webhook("test:1", "hook"));
    const [letter] = await deadLetters("hooked", 1);
    const id = String(letter!["id"]);
    expect(letter).toMatchObject({ cause: { kind: "webhook", provider: "test", id: "test:1" } });
    const shown = await agents(["dead", "show", id]);
    expect(shown.out).toContain("POST http://localhost/hook");
    expect(shown.out).toContain("x-kept: yes");
    expect(shown.out).not.toContain("secret");
    await agents(["call", "WorkAgent", "hooked", "allow"]);
    expect(await agents(["dead", "redrive", id])).toMatchObject({ code: 0 });
    await finished("hooked", ["hook"]);
    // As if the operator's computer had died between storing and removing.
    await publish("hooked", webhook("test:1", "hook"), webhook("test:2", "later"));
    await finished("hooked", ["hook", "later"]);
    await deadLetters("hooked", 0);
  });

  it("can only drop an unreadable input; the others of a list are redriven", async () => {
    await publish("broken", Buffer.from("no envelope"));
    const [letter] = await deadLetters("broken", 1);
    const id = String(letter!["id"]);
    expect(letter).toMatchObject({ unreadable: expect.any(String) as string });
    expect(await agents(["dead", "redrive", id])).toMatchObject({ code: 1, out: "" });
    expect(await agents(["dead", "drop", "999999", id])).toMatchObject({
      code: 3,
      out: `${id}  WorkAgent broken: dropped`,
      err: expect.stringContaining("no dead letter 999999") as string,
    });
    await deadLetters("broken", 0);
  });

  it("an empty list is not a failure", async () => {
    expect(await agents(["dead", "list", "NoSuch"])).toEqual({
      code: 0,
      out: "",
      err: "No dead letters.",
    });
  });
});

describe("agents tail", () => {
  it("prints turns as they are committed, with the resulting state, until Ctrl-C", async () => {
    await agents(["call", "WorkAgent", "watched", "allow"]);
    const tail = start(["tail", "work-agent", "watched", "--json"]);
    await pollUntil(
      "it follows",
      () => tail.err.includes("Following") || { done: false, saw: tail },
    );
    await agents(["call", "WorkAgent", "other", "allow"]);
    await agents(["call", "WorkAgent", "watched", "work", '"one"']);
    await agents(["call", "WorkAgent", "watched", "enqueue", '"two"']);
    // A slow machine also shows that a turn has begun.
    const turns = () =>
      lines(tail.out.slice(0, tail.out.lastIndexOf("\n"))).filter((line) => !("begun" in line));
    await pollUntil("the last turn", () =>
      turns().some(({ state }) => JSON.stringify(state)?.includes("two"))
        ? true
        : { done: false, saw: tail.out },
    );
    tail.interrupt();
    expect(await tail.ended).toBe(0);
    expect(turns()).toMatchObject([
      { class: "WorkAgent", name: "watched", cause: { kind: "rpc", type: "work" }, state: { done: ["one"] } },
      { name: "watched",  queue: { put: [{ callback: "work" }] } },
      { name: "watched", cause: { kind: "queue" }, state: { done: ["one", "two"] } },
    ]); // prettier-ignore
  });

  it("ends at --limit", async () => {
    await agents(["call", "WorkAgent", "limited", "allow"]);
    // Only one agent's, since schedules of others run when they are due.
    const tail = start(["tail", "WorkAgent", "limited", "--limit", "1"]);
    await pollUntil(
      "it follows",
      () => tail.err.includes("Following") || { done: false, saw: tail },
    );
    await agents(["call", "WorkAgent", "limited", "allow"]);
    expect(await tail.ended).toBe(0);
    expect(tail.out).toMatch(/^WorkAgent limited {2}\d+ .* rpc/);
  });
});
