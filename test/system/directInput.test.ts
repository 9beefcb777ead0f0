/** Webhooks that are passed to their agent before they are stored (`core/input/DirectInput`). */
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { Subjects } from "../../schemas/Subjects.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost, type SystemOptions } from "../kit/system.ts";
import {
  deadLetterOf,
  journalOf,
  makeLatch,
  postGithub,
  SECRET,
  useSystems,
  type Latch,
  type System,
} from "./kit.ts";

interface Env {
  readonly latches: Map<string, Latch>;
  readonly runs: string[];
}

class Keeper extends Agent<Env, number> {
  static override options = { retry: { maxAttempts: 1 } };
  override initialState = 0;

  override async onRequest(request: Request) {
    const { op, name } = (await request.json()) as { op: string; name: string };
    this.env.runs.push(`${this.name} ${op} ${name}`);
    if (op === "fails") throw new Error("as ordered");
    if (op.startsWith("writes-and-waits")) this.setState(this.state + 1);
    await this.env.latches.get(name)?.opened;
    if (op === "writes-and-waits-and-fails") throw new Error("as ordered, late");
    if (op === "ends") await this.destroy();
    else if (op === "waits") this.setState(this.state + 1);
    else if (op === "writes") this.setState(this.state + 1);
    return new Response(`${this.name} has ${this.state}`);
  }
}

const latches = new Map<string, Latch>();
const runs: string[] = [];
const DEADLINE_MS = 1_000;
/** Enough names that every one of a system's few shards has some. */
const SHARDS_COVERED = 40;
const module = {
  agents: { Keeper },
  env: { SECRET, latches, runs },
  webhooks: ["/keeper", "/hurried"].map((path) =>
    webhook(path, {
      agent: Keeper,
      verify: github({ secret: "SECRET" }),
      entity: body("agent", slug),
      ...(path === "/hurried" ? { deadlineMs: DEADLINE_MS } : {}),
    }),
  ),
};

/** Sequence of the last message that the inbox stored; how many lie there. */
async function inboxOf(options: SystemOptions): Promise<{ last: number; waiting: number }> {
  const client = await connect({ servers: options.nats.replace("nats://", "") });
  try {
    const stream = new Subjects(options.namespace).stream.inbox;
    const { state } = await (await jetstreamManager(client)).streams.info(stream);
    return { last: state.last_seq, waiting: state.messages };
  } finally {
    await client.close();
  }
}

const until = <A>(what: string, look: () => Promise<A>, isIt: (seen: A) => boolean): Promise<A> =>
  pollUntil(what, async () => {
    const seen = await look();
    return isIt(seen) ? { done: true, value: seen } : { done: false, saw: seen };
  });

const post = (url: string, agent: string, op: string, name = agent, id?: string) =>
  postGithub(url, { agent, op, name }, id === undefined ? {} : { id });

describe.each([
  ["by messages", false],
  ["in one process", true],
])("a webhook that its agent answers, %s", (_how, together) => {
  const systems = useSystems();
  let system: System & { readonly options: SystemOptions };
  let url: string;
  beforeAll(async () => {
    runs.length = 0;
    system = await systems.start(module, { together });
    url = `${system.url}/keeper`;
    // Until its host has all of its shards, a gateway stores.
    let warm = 0;
    await until(
      "a host takes what it is given",
      async () => {
        const before = (await inboxOf(system.options)).last;
        for (let n = 0; n < SHARDS_COVERED; n++) await post(url, `warm-${n}`, "writes");
        return { round: ++warm, stored: (await inboxOf(system.options)).last - before };
      },
      ({ stored }) => stored === 0,
    );
  });
  const inboxEmpties = () =>
    until(
      "the inbox is empty",
      () => inboxOf(system.options),
      ({ waiting }) => waiting === 0,
    );
  const turnsOf = async (name: string) =>
    (await journalOf(system.options, "Keeper", name)).flatMap((event) => event.turns);

  test("is stored by its turn's event, and nowhere else", async () => {
    const before = await inboxOf(system.options);
    const answer = await post(url, "plain", "writes", "plain", "one");
    expect([answer.status, answer.text]).toEqual([200, "plain has 1"]);
    expect(await inboxOf(system.options)).toEqual(before);
    const [turn, ...others] = await turnsOf("plain");
    expect(others).toEqual([]);
    expect(turn).toMatchObject({ cause: { id: "github:one" }, done: ["github:one"] });
    expect(turn?.cause).not.toHaveProperty("seq");
    const again = await post(url, "plain", "writes", "plain", "one");
    expect([again.status, again.text]).toEqual([200, "OK"]);
    expect(await turnsOf("plain")).toHaveLength(1);
  });

  test("is in the inbox before the journal has half of its turn", async () => {
    const latch = makeLatch();
    latches.set("half", latch);
    const { last } = await inboxOf(system.options);
    const answer = post(url, "half", "writes-and-waits");
    const [half] = await until(
      "half of the turn is journaled",
      () => turnsOf("half"),
      (turns) => turns.length > 0,
    );
    expect(half).toMatchObject({ begun: true, cause: { seq: last + 1 } });
    expect(await inboxOf(system.options)).toMatchObject({ last: last + 1, waiting: 1 });
    latch.open();
    expect((await answer).text).toBe("half has 1");
    expect((await turnsOf("half")).at(-1)).toMatchObject({ cause: { seq: last + 1 } });
    await inboxEmpties();
    expect(runs.filter((run) => run.startsWith("half "))).toHaveLength(1);
  });

  test("is stored there if its agent takes long, and accepted by its deadline", async () => {
    const latch = makeLatch();
    latches.set("slow", latch);
    const answer = await post(`${system.url}/hurried`, "slow", "waits");
    expect(answer.status).toBe(202);
    expect((await inboxOf(system.options)).waiting).toBe(1);
    latch.open();
    await until(
      "it is done",
      () => turnsOf("slow"),
      (turns) => turns.some(({ done }) => done !== undefined),
    );
    await inboxEmpties();
    expect(runs.filter((run) => run.startsWith("slow "))).toHaveLength(1);
  });

  test("is a complete dead letter after one run that finally fails", async () => {
    const answer = await post(url, "dead", "fails", "dead", "dies");
    expect(answer.status).toBe(500);
    expect(await deadLetterOf(system.options, "Keeper", "dead")).toMatchObject({
      agent: ["Keeper", "dead"],
      reason: "Error: as ordered",
    });
    expect((await turnsOf("dead")).at(-1)).toMatchObject({ dead: true });
    expect((await inboxOf(system.options)).waiting).toBe(0);
    expect(runs.filter((run) => run.startsWith("dead "))).toHaveLength(1);
    // Sent again it runs again.
    await post(url, "dead", "fails", "dead", "dies");
    expect(runs.filter((run) => run.startsWith("dead "))).toHaveLength(2);
  });

  test("runs once if it finally fails after both host and gateway stored it", async () => {
    const latch = makeLatch();
    latches.set("twice", latch);
    const answer = await post(`${system.url}/hurried`, "twice", "writes-and-waits-and-fails");
    expect(answer.status).toBe(202);
    expect((await inboxOf(system.options)).waiting).toBe(2);
    latch.open();
    await inboxEmpties();
    expect((await turnsOf("twice")).filter(({ dead }) => dead === true)).toHaveLength(1);
    expect(runs.filter((run) => run.startsWith("twice "))).toHaveLength(1);
  });

  test("is answered by its agent once if it ends that agent's life", async () => {
    await post(url, "ended", "writes");
    const answer = await post(url, "ended", "ends", "ended", "last");
    expect(answer.status).toBe(200);
    expect((await post(url, "ended", "ends", "ended", "last")).text).toBe("OK");
    expect((await post(url, "ended", "writes")).text).toBe("ended has 1");
  });
});

describe("a gateway", () => {
  const systems = useSystems();

  test("stores every webhook first if so configured", async () => {
    const { url, options } = await systems.start(module, { gateway: { storeFirst: true } });
    expect((await post(`${url}/keeper`, "first", "writes")).status).toBe(200);
    const [event] = await journalOf(options, "Keeper", "first");
    expect(event?.turns[0]?.cause.seq).toBe(1);
  });

  test("does not let a webhook overtake stored inputs", async () => {
    const options = systems.options(module);
    const gateway = await startTestGateway(options, "gateway-queue");
    const stored: string[] = [];
    for (let n = 0; n < 3; n++) {
      stored.push(`queue stored-${n}`);
      const answer = await post(`${gateway.url}/hurried`, "queue", `stored-${n}`);
      expect(answer.status).toBe(202);
    }
    const starting = startTestHost(options, "host-queue");
    const later = post(`${gateway.url}/keeper`, "queue", "later");
    const host = await starting;
    try {
      expect((await later).status).toBe(200);
      const ran = runs.filter((run) => run.startsWith("queue ")).map((run) => run.slice(0, -6));
      expect(ran).toEqual([...stored, "queue later"]);
    } finally {
      await host.stop();
      await gateway.stop();
    }
  });
});
