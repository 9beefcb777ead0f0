/** `agents restore <class> <name> --at …` on a running installation, by one more event. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent, type FiberRecoveryContext } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { postGithub, SECRET, TestSocket, useSystems, type System } from "./kit.ts";

interface State {
  readonly count: number;
  readonly rung: ReadonlyArray<string>;
}

/** How often each job's method ran, by its argument. */
const ran: string[] = [];
/** Names of fibers that were found interrupted. */
const recovered: string[] = [];
let endFiber = (): void => undefined;

class Ledger extends Agent<unknown, State> {
  static override options = { hibernateAfterSeconds: 0.5 };
  override initialState: State = { count: 0, rung: [] };
  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
  }
  override async onRequest(request: Request): Promise<Response> {
    const { note } = (await request.json()) as { note: string };
    this.sql`INSERT INTO notes VALUES (${note})`;
    this.setState({ ...this.state, count: this.state.count + 1 });
    return new Response(String(this.state.count));
  }
  async plan(seconds: number, text: string): Promise<void> {
    await this.schedule(seconds, "ring", text);
  }
  async cancelAll(): Promise<void> {
    for (const { id } of this.getSchedules()) await this.cancelSchedule(id);
  }
  async push(): Promise<void> {
    await this.queue("fail", null, { retry: { maxAttempts: 1 } });
  }
  fail(): never {
    throw new Error("it always fails");
  }
  async begin(name: string): Promise<void> {
    await this.startFiber(name, () => new Promise<void>((resolve) => (endFiber = resolve)));
  }
  async running(): Promise<number> {
    return (await this.listFibers({ status: "running" })).length;
  }
  override onFiberRecovered({ name }: FiberRecoveryContext): void {
    recovered.push(name);
  }
  ring(text: string): void {
    ran.push(text);
    this.setState({ ...this.state, rung: [...this.state.rung, text] });
  }
  sizes() {
    return this.sql`SELECT length(text) AS size FROM notes ORDER BY rowid`;
  }
  all() {
    return {
      ...this.state,
      notes: this.sql<{ text: string }>`SELECT text FROM notes ORDER BY rowid`.map((r) => r.text),
      planned: this.getSchedules().map(({ payload }) => payload),
    };
  }
}

const route = webhook("/hook", {
  agent: Ledger,
  verify: github({ secret: "S" }),
  entity: body("agent", slug),
});
/** Bytes of a message of the broker. */
const PAYLOAD_BYTES_MAX = 64 * 1024;
const systems = useSystems({ maxPayload: PAYLOAD_BYTES_MAX });
let system: System & { readonly options: { readonly nats: string; readonly namespace?: string } };
let ports: ReadPorts;

beforeAll(async () => {
  system = await systems.start({ agents: { Ledger }, webhooks: [route], env: { S: SECRET } });
  ports = await openReader({ natsUrl: system.options.nats, namespace: system.options.namespace! });
});
afterAll(() => ports?.close());

const run = (...args: string[]) =>
  runCommand([...args, "--nats", system.options.nats, "--namespace", system.options.namespace!]);

const hook = (agent: string, note: string, id = `${agent}-${note}`) =>
  postGithub(`${system.url}/hook`, { agent, note }, { id });

async function call(name: string, method: string, ...args: unknown[]): Promise<unknown> {
  const { reply } = await ports.calls.call(
    agentId("Ledger", name),
    { kind: "rpc", method, args },
    { deadlineMs: 20_000, repeatable: true },
  );
  if (reply.kind !== "result") throw new Error(JSON.stringify(reply));
  return reply.value;
}

async function heads(name: string) {
  const found = [];
  for await (const { seq, data } of ports.journal.read(agentId("Ledger", name), {
    fromSeq: 1 as Sequence,
  }))
    found.push({ seq, ...decodeEvent(data).head });
  return found;
}
const lastSeq = async (name: string): Promise<number> => (await heads(name)).at(-1)!.seq;

test("state, rows and schedules are restored, history is kept, and the restore can be undone", async () => {
  await hook("one", "a");
  await call("one", "plan", 3_600, "later");
  const then = await call("one", "all");
  const at = await lastSeq("one");
  await hook("one", "b");
  await call("one", "cancelAll");
  const late = await call("one", "all");
  const before = await heads("one");
  const socket = await TestSocket.open(`${system.url.replace("http", "ws")}/agents/ledger/one`);
  await socket.until("the state", () => socket.states.length > 0);

  const restored = await run("restore", "ledger", "one", "--at", String(at), "--yes");
  expect(restored).toMatchObject({ code: 0 });
  expect(await call("one", "all")).toEqual(then);
  await socket.until("the state of then", () => (socket.states.at(-1) as State).count === 1);
  const after = await heads("one");
  expect(after.slice(0, before.length)).toEqual(before);
  expect(after.flatMap(({ turns }) => turns).filter((turn) => turn.restored)).toMatchObject([
    { restored: { seq: at } },
  ]);

  expect((await run("history", "ledger", "one")).out).toContain(`put back to event ${at} of`);

  expect(restored.err).toContain(`--at ${before.at(-1)!.seq} --yes`);
  await run("restore", "ledger", "one", "--at", String(before.at(-1)!.seq), "--yes");
  expect(await call("one", "all")).toEqual(late);
  await socket.close();
});

test("without --yes it prints the difference and changes nothing", async () => {
  await hook("shown", "a");
  const at = await lastSeq("shown");
  await hook("shown", "b");
  const before = await heads("shown");
  const asked = await run("restore", "ledger", "shown", "--at", String(at));
  expect(asked.code).toBe(2);
  expect(asked.out.split("\n")).toEqual(["state.count: 2 -> 1", 'notes[2]: {"text":"b"} -> unset']);
  expect(asked.err).toContain("Add --yes");
  expect(await heads("shown")).toEqual(before);
});

test("a webhook that was processed since then is not applied again on redelivery", async () => {
  await hook("done", "a");
  const at = await lastSeq("done");
  expect((await hook("done", "b")).text).toBe("2");
  await run("restore", "ledger", "done", "--at", String(at), "--yes");
  await hook("done", "b");
  expect(await call("done", "all")).toMatchObject({ count: 1, notes: ["a"] });
  expect((await hook("done", "c")).text).toBe("2");
});

test("a restored schedule runs when it is due", async () => {
  await hook("due", "a");
  await call("due", "plan", 1, "soon");
  const at = await lastSeq("due");
  await call("due", "cancelAll");
  await run("restore", "ledger", "due", "--at", String(at), "--yes");
  await pollUntil("it has run", () => ran.includes("soon"));
  expect(ran.filter((text) => text === "soon")).toHaveLength(1);
});

test("a job that is put back and dies again is a second dead letter", async () => {
  await call("dead", "push");
  const at = (await heads("dead")).find(({ queue }) => queue?.put?.length === 1)!.seq;
  const letters = async () => {
    const found: string[] = [];
    for await (const { id, data } of ports.deadLetters.list("Ledger"))
      if (id.name === "dead") found.push(decodeEnvelope(decodeDeadLetter(data).input).head.key);
    return found;
  };
  const died = async (times: number): Promise<boolean> => {
    const turns = (await heads("dead")).flatMap((event) => event.turns);
    return turns.filter(({ dead }) => dead === true).length === times;
  };
  await pollUntil("it has died", () => died(1));
  const first = await letters();
  expect(first).toHaveLength(1);
  await run("restore", "ledger", "dead", "--at", String(at), "--yes");
  await pollUntil("it has died again", () => died(2));
  expect(await letters()).toEqual([...first, ...first]);
});

test("a fiber that was running then is treated as interrupted, even if it has ended since", async () => {
  await call("fiber", "begin", "research");
  const at = await lastSeq("fiber");
  endFiber();
  await pollUntil("it has ended", async () => (await call("fiber", "running")) === 0);
  expect(recovered).toEqual([]);
  await run("restore", "ledger", "fiber", "--at", String(at), "--yes");
  await pollUntil("it is recovered", () => recovered.includes("research"));
});

test("an agent larger than the broker's payload limit is restored", async () => {
  for (let n = 0; n < 4; n++)
    await hook("large", `${n}`.repeat(PAYLOAD_BYTES_MAX / 2), `large-${n}`);
  const then = await call("large", "sizes");
  const at = await lastSeq("large");
  await hook("large", "small");
  expect(await run("restore", "ledger", "large", "--at", String(at), "--yes")).toMatchObject({
    code: 0,
  });
  expect(await call("large", "sizes")).toEqual(then);
});

test("a repeated request is processed once", async () => {
  await hook("twice", "a");
  const id = agentId("Ledger", "twice");
  const { image, database } = await rebuildAgent(id, ports);
  const snapshot = image.encode(database.image());
  database.close();
  await hook("twice", "b");
  const restore = () =>
    ports.calls.call(
      id,
      { kind: "restore", key: "restore:1", life: 0 },
      { body: snapshot, deadlineMs: 20_000, repeatable: true },
    );
  const [first, second] = await Promise.all([restore(), restore()]);
  expect(second.reply).toEqual(first.reply);
  await hook("twice", "c");
  expect((await restore()).reply).toEqual(first.reply);
  expect(await call("twice", "all")).toMatchObject({ notes: ["a", "c"] });
});

test("under load nothing is lost and nothing applies twice", async () => {
  await hook("busy", "first");
  const at = await lastSeq("busy");
  let sending = true;
  const answers: number[] = [];
  const senders = Array.from({ length: 4 }, async (_, sender) => {
    for (let n = 0; sending; n++) answers.push((await hook("busy", `${sender}-${n}`)).status);
  });
  await pollUntil("some are done", () => answers.length > 40);
  const restored = await run("restore", "ledger", "busy", "--at", String(at), "--yes", "--json");
  const until = answers.length + 40;
  await pollUntil("more are done", () => answers.length > until);
  sending = false;
  await Promise.all(senders);
  expect(restored).toMatchObject({ code: 0 });
  const { restored: seq } = JSON.parse(restored.out) as { restored: number };
  await pollUntil("all are done", async () => {
    const done = (await heads("busy")).flatMap(({ turns }) => turns.flatMap((t) => t.done ?? []));
    return done.filter((key) => key.startsWith("github:")).length === answers.length + 1;
  });
  expect(answers.every((status) => status === 200 || status === 202)).toBe(true);
  const events = await heads("busy");
  const keys = events.flatMap(({ turns }) => turns.flatMap((turn) => turn.done ?? []));
  expect(new Set(keys).size).toBe(keys.length);
  const since = events
    .filter((event) => event.seq > seq)
    .flatMap(({ turns }) => turns.flatMap((turn) => turn.done ?? []));
  const state = (await call("busy", "all")) as State & { readonly notes: ReadonlyArray<string> };
  expect(state.count).toBe(1 + since.length);
  expect(state.notes).toHaveLength(1 + since.length);
});

test("invalid arguments are errors that say what is wrong", async () => {
  await hook("wrong", "a");
  const cases = [
    [["restore", "ledger", "wrong"], /Specify the point/],
    [["restore", "folder", "--at", "3"], /Specify the agent's name too/],
    [["restore", "ledger", "nobody", "--at", "3", "--yes"], /There is no agent/],
    [["restore", "ledger", "wrong", "--at", "yesterday", "--yes"], /--at <point>.*yesterday/],
    [["restore", "ledger", "wrong", "--at", "999999", "--yes"], /is at that point/],
    [["restore", "ledger", "wrong", "--at", "2001-01-01", "--yes"], /had no event/],
  ] as const;
  for (const [args, message] of cases) {
    const told = await run(...args);
    expect([args, told.code > 0]).toEqual([args, true]);
    expect(told.err).toMatch(message);
  }
});
