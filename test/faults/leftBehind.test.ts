/** Fibers and objects go on by themselves while their hosts are killed and replaced. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { agentId } from "../../schemas/Address.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MODULE = fileURLToPath(new URL("./leftBehindModule.ts", import.meta.url));
/** Fibers, and objects of each class. */
const WORKERS = 40;
const OBJECTS = 12;
/** As the module of the fibers. */
const STEPS = 40;
/** As the module of the objects: alarms, and schedules of the reference's agent. */
const ALARMS = 20;
const WEBHOOKS = 4;
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** An alarm is never later, nor a step. */
const QUIET_MS = 5_000;
/** Usual are 20 s. */
const FINISH_TIMEOUT_MS = 120_000;

/** What an object has written, read in two ways. */
interface Written {
  readonly steps: ReadonlyArray<string>;
  readonly rows: ReadonlyArray<string>;
}

interface Fibers {
  readonly steps: ReadonlyArray<number>;
  readonly recoveries: number;
  readonly status: string;
  readonly rows: number;
}

const folder = tempFolder("left-behind");
/** `halfway` */
const held = join(folder.path, "held");
let installation: Installation;
let hosts: { a: AgentsProcess; b: AgentsProcess };
let guests: ReadonlyArray<Guest>;
/** Alarms that had run when the first host was killed, of each object. */
let alarmsBefore: ReadonlyArray<number>;

const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);
const ofEach = <A>(count: number, ask: (n: number) => Promise<A>): Promise<A[]> =>
  Promise.all(numbers(count).map(ask));

/** Asked again until it is answered: a host that dies takes its calls along. */
const ask = <A>(kind: string, n: number, method = "GET"): Promise<A> =>
  pollUntil(`${kind} ${n} answers`, async () => {
    const url = `${installation.gateway.url}/agents/${kind}/${n}`;
    const response = await fetch(url, { method, signal: AbortSignal.timeout(10_000) });
    if (!response.ok) return { done: false, saw: response.status };
    return { done: true, value: (await response.json()) as A };
  });

/** A socket that its object has accepted. */
class Guest {
  readonly answers: unknown[] = [];
  closed: number | undefined;
  private readonly socket: WebSocket;

  constructor(n: number) {
    const url = `${installation.gateway.url}/agents/lobby/${n}?name=guest-${n}`;
    this.socket = new WebSocket(url.replace("http", "ws"));
    this.socket.on("error", () => undefined);
    this.socket.on("close", (code) => (this.closed = code));
    this.socket.on("message", (data) => this.answers.push(JSON.parse(String(data))));
  }

  /** Sends a message, and resolves when there is one more answer. */
  async say(message: string): Promise<void> {
    const before = this.answers.length;
    await pollUntil("it is open", () => this.socket.readyState !== WebSocket.CONNECTING);
    this.socket.send(message);
    await pollUntil("it is answered", () => this.answers.length > before || { done: false, saw: this.closed }); // prettier-ignore
  }

  close(): void {
    this.socket.close();
  }
}

beforeAll(async () => {
  installation = await Installation.start({
    shards: 8,
    leaseTtlMs: LEASE_TTL_MS,
    module: MODULE,
  });
  writeFileSync(held, "");
  const env = { HELD: held };
  const startHost = (name: string) => installation.startHost(name, { env });
  hosts = { a: await startHost("a"), b: await startHost("b") };
  await installation.shared(2);
  guests = numbers(OBJECTS).map((n) => new Guest(n));
  await Promise.all(guests.map((guest) => guest.say("before")));
  await Promise.all([
    ofEach(WORKERS, (n) => ask("worker", n, "POST")),
    ofEach(OBJECTS, (n) => ask("till", n, "PUT")),
    ofEach(OBJECTS, (n) => ask("tally", n, "PUT")),
  ]);
  const tills = await pollUntil("each object has run an alarm", async () => {
    const value = await ofEach(OBJECTS, (n) => ask<Written>("till", n));
    const counts = value.map(({ rows }) => rows.length);
    return Math.min(...counts) > 0 ? { done: true, value } : { done: false, saw: counts };
  });
  alarmsBefore = tills.map(({ rows }) => rows.length);
  // One of them comes again, and half of them meet a host that is about to die.
  await ofEach(OBJECTS, (n) => publish(n, [...numbers(WEBHOOKS), 0]));
  await hosts.a.kill();
  rmSync(held);
  hosts.a = await startHost("a");
  await installation.shared(2);
  await hosts.b.stop();
  await nothingGoesOn();
});
afterAll(async () => {
  await installation?.stop();
  folder.remove();
});

async function publish(n: number, webhooks: ReadonlyArray<number>): Promise<void> {
  for (const each of webhooks)
    await installation.publish(agentId("Till", `${n}`), { key: `w${each}` }, `webhook ${each}`);
}

/**
 * Resolves when all are through. The journal says how far they are, so that nobody has to call
 * them: each step is an event of its own. Afterwards it is quiet, or a step was repeated.
 */
function nothingGoesOn(): Promise<unknown> {
  const { journal } = installation.ports;
  const eventsOf = async (className: string, n: number): Promise<number> =>
    (await journal.last(agentId(className, `${n}`)))?.seq ?? 0;
  const events = (): Promise<number[]> =>
    Promise.all([
      ...numbers(WORKERS).map((n) => eventsOf("Worker", n)),
      ...numbers(OBJECTS).map((n) => eventsOf("Till", n)),
    ]);
  const least = (n: number): number => (n < WORKERS ? STEPS : ALARMS + WEBHOOKS);
  return pollUntil(
    "all are through, and nothing goes on any more",
    async () => {
      const before = await events();
      if (before.some((count, n) => count < least(n))) return { done: false, saw: before };
      await sleep(QUIET_MS);
      return String(await events()) === String(before) || { done: false, saw: before };
    },
    { timeoutMs: FINISH_TIMEOUT_MS },
  );
}

test("interrupted fibers are resumed, with each step run once", async () => {
  const told = await ofEach(WORKERS, (n) => ask<Fibers>("worker", n));
  for (const { steps } of told) expect(steps).toEqual(numbers(STEPS));
  for (const { status, rows } of told) expect([status, rows]).toEqual(["completed", 1]);
  const recoveries = told.map((each) => each.recoveries);
  console.log(`fibers recovered: ${recoveries.join(" ")}`);
  // The first host's were interrupted for sure, about half of all; the other's may have been
  // through by then.
  const all = recoveries.reduce((sum, each) => sum + each, 0);
  expect(all).toBeGreaterThanOrEqual(WORKERS / 8);
});

describe("a Durable Object", () => {
  test("applies the writes of each alarm and webhook once, to both storages in the same order", async () => {
    const tills = await ofEach(OBJECTS, (n) => ask<Written>("till", n));
    console.log(`alarms before the first kill: ${alarmsBefore.join(" ")}`);
    expect(Math.max(...alarmsBefore)).toBeLessThan(ALARMS);
    for (const { steps, rows } of tills) {
      expect(rows).toEqual(steps);
      const alarms = rows.filter((row) => row.startsWith("alarm"));
      expect(alarms).toEqual(numbers(ALARMS).map((n) => `alarm ${n}`));
      const webhooks = rows.filter((row) => row.startsWith("webhook")).toSorted();
      expect(webhooks).toEqual(numbers(WEBHOOKS).map((n) => `webhook ${n}`));
      expect(rows).toHaveLength(ALARMS + WEBHOOKS);
    }
  });

  test("keeps its hibernated socket with attachment, tag and messages", async () => {
    await Promise.all(guests.map((guest) => guest.say("after")));
    for (const [n, { answers, closed }] of guests.entries()) {
      const attachment = { name: `guest-${n}` };
      expect(closed).toBe(undefined);
      expect(answers[0]).toEqual([attachment, true, ["before"]]);
      expect(answers.at(-1)).toEqual([attachment, true, ["before", "after"]]);
    }
    for (const guest of guests) guest.close();
  });

  test("built on the reference's agent applies each schedule's writes once", async () => {
    const wanted = numbers(ALARMS).map((n) => `schedule ${n}`);
    const tallies = await ofEach(OBJECTS, (n) =>
      pollUntil(`tally ${n} is done`, async () => {
        const value = await ask<Written>("tally", n);
        return wanted.every((step) => value.rows.includes(step))
          ? { done: true, value }
          : { done: false, saw: value.rows.length };
      }),
    );
    for (const { steps, rows } of tallies) {
      expect(rows).toEqual(steps);
      expect(rows.toSorted()).toEqual(wanted.toSorted());
    }
  });
});
