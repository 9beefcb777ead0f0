/** The guarantees of a commit, one rule for each test, with every append decided by hand. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { GATHER_MS } from "../../core/turn/GatherTimer.ts";
import { makeLatch } from "../system/kit.ts";
import { CommitRig } from "./CommitRig.ts";

type Step = (agent: Subject, text: string) => void | string | Promise<void | string>;

/** What the agent does with an input; each test sets it. */
let onInput: Step;
let instances: Subject[];
let runs: string[];

class Subject extends Agent<unknown, { readonly n: number }> {
  static override options = { retry: { maxAttempts: 2 } };
  override initialState = { n: 0 };
  override onStart(): void {
    instances.push(this);
    this.sql`CREATE TABLE IF NOT EXISTS t (v TEXT)`;
  }
  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const text = await request.text();
    runs.push(text);
    return new Response((await onInput(this, text)) ?? "OK");
  }
  override onError(): void {
    throw new Error("it failed");
  }
  async job(): Promise<void> {
    await onInput(this, "job");
  }
  write(text: string): void {
    this.setState({ n: this.state.n + 1 });
    this.sql`INSERT INTO t VALUES (${text})`;
  }
}

let rig: CommitRig;
beforeEach(async () => {
  instances = [];
  runs = [];
  Subject.options = { retry: { maxAttempts: 2 } };
  onInput = (agent, text) => agent.write(text);
  rig = await CommitRig.make(Subject as unknown as AgentClassType);
  // Each test begins with input 1: the agent is in memory, its table exists, its state is 1.
  await rig.deliver(100);
  runs.length = 0;
  rig.left.length = 0;
});

const wait = (ms: number) => new Promise<void>((resolve) => rig.time.after(ms, resolve));
/** Events that hold inputs, without those of activation. */
const turns = async () =>
  (await rig.events()).flatMap(({ turns: all }) =>
    all.flatMap(({ cause, done, begun, dead, state, sql }) =>
      cause.kind === "webhook" && cause.id !== "key-100" ? [{ key: cause.id, done, begun, dead, wrote: Boolean(state ?? sql), attempt: cause.attempt ?? 1 }] : [],
    ),
  ); // prettier-ignore
const whole = (key: string) => ({
  key, done: [key], begun: undefined, dead: undefined, wrote: true, attempt: 1,
}); // prettier-ignore

describe("the output gate", () => {
  test("sends outputs in order, and only after their commit", async () => {
    await rig.connect();
    onInput = (agent) => {
      agent.broadcast("before any write");
      agent.write("a");
      agent.broadcast("after the write");
      return "OK";
    };
    rig.holding = true;
    await rig.deliver(1);
    expect(rig.left).toEqual(["cast before any write"]);
    await rig.held[0]!.pass();
    expect(rig.left).toEqual([
      "cast before any write",
      'cast {"type":"cf_agent_state","state":{"n":2},"seq":2}',
      'state {"n":2}',
      "cast after the write",
      "ack 1",
      "answer 1 200",
    ]);
  });

  test("holds a call's answer until what it may have read is stored", async () => {
    rig.holding = true;
    await rig.deliver(1);
    let told: unknown;
    const asked = rig.get().then((state) => (told = state));
    await rig.settled();
    expect(told).toBeUndefined();
    await rig.held[0]!.pass();
    await asked;
    expect(told).toEqual({ n: 2 });
  });

  test("holds back a turn's outputs when the lease is lost", async () => {
    onInput = async (agent, text) => {
      agent.broadcast("too early?");
      await wait(10);
      agent.write(text);
      agent.broadcast("never");
    };
    await rig.connect();
    const before = await rig.events();
    await rig.deliver(1);
    rig.lose();
    await rig.pass(1000);
    expect(rig.left).toEqual(["cast too early?"]);
    expect(await rig.events()).toEqual(before);
  });

  test("drops the outputs when the lease is lost during the append, although it was stored", async () => {
    rig.holding = true;
    await rig.deliver(1);
    const passing = rig.held[0]!.pass();
    rig.lose();
    rig.holding = false;
    expect((await passing)._tag).toBe("Stored");
    expect(rig.left).toEqual([]);
    // The next owner finds it done.
    rig.claim(2);
    await rig.deliver(1);
    expect(runs).toEqual(["key-1"]);
    expect(rig.left).toEqual(["ack 1", "answer 1 200 duplicate"]);
  });
});

describe("an agent without a journal", () => {
  beforeEach(async () => {
    rig = await CommitRig.make(Subject as unknown as AgentClassType);
  });

  test("answers a read, and stores nothing", async () => {
    expect(await rig.get()).toEqual({ n: 0 });
    await rig.pass(5000);
    expect(await rig.get()).toEqual({ n: 0 });
    expect(await rig.events()).toEqual([]);
  });

  test("does not announce its first event if its shard was lost meanwhile", async () => {
    let renewed = (_held: boolean): void => undefined;
    rig.isStillOurs = new Promise((resolve) => (renewed = resolve));
    await rig.deliver(1);
    expect((await rig.events()).length).toBe(1);
    expect(rig.left).toEqual([]);
    rig.lose();
    renewed(false);
    await rig.settled();
    expect(rig.left).toEqual([]);
    // Its successor finds it done.
    rig.isStillOurs = true;
    rig.claim(2);
    await rig.deliver(1);
    expect(rig.left).toEqual(["ack 1", "answer 1 200 duplicate"]);
  });

  test("announces its first event once its overdue lease renewal succeeds", async () => {
    let renewed = (_held: boolean): void => undefined;
    rig.isStillOurs = new Promise((resolve) => (renewed = resolve));
    await rig.deliver(1);
    renewed(true);
    await rig.settled();
    expect(rig.left).toContain("answer 1 200");
    // For later events the journal itself is the fence.
    rig.isStillOurs = new Promise(() => undefined);
    await rig.deliver(2);
    expect(rig.left).toContain("answer 2 200");
  });

  test("finds an older owner's late first event at its next call, and continues from it", async () => {
    rig.holding = true;
    await rig.deliver(1);
    rig.lose();
    rig.holding = false;
    rig.claim(2);
    expect(await rig.get()).toEqual({ n: 0 });
    rig.store(rig.held[0]!);
    await rig.pass(2000);
    await expect(rig.get()).rejects.toThrow();
    expect(await rig.get()).toEqual({ n: 1 });
  });

  test("stores an event before it acks the trigger of an unknown job", async () => {
    rig.holding = true;
    await rig.deliver(1, "schedule:gone:1", "", "schedule");
    expect(rig.left).toEqual([]);
    // What the start made is discarded with it.
    expect(rig.held.map(({ head }) => head.turns.map(({ cause }) => cause.kind))).toEqual([
      ["start"],
    ]);
    await rig.held[0]!.pass();
    expect(rig.left).toEqual(["ack 1"]);
  });
});

describe("a refused append", () => {
  test("drops the outputs, acks nothing, and the input runs again on a fresh agent", async () => {
    await rig.connect();
    rig.holding = true;
    await rig.deliver(1);
    rig.intrude(1);
    rig.holding = false;
    const [append] = rig.held;
    const result = await append!.pass();
    expect(result._tag).toBe("Conflict");
    expect(rig.refused).toBe(1);
    await rig.settled();
    expect(runs).toEqual(["key-1", "key-1"]);
    expect(instances).toHaveLength(2);
    expect(rig.left.filter((it) => /ack|answer/.test(it))).toEqual(["ack 1", "answer 1 200"]);
    expect(rig.left.filter((it) => it.startsWith("state"))).toEqual(['state {"n":2}']);
    // It may have made the agent leave memory, so that it is journaled as begun before it runs
    // again.
    const [begun, ...rest] = await turns();
    expect(begun).toMatchObject({ key: "key-1", begun: true, wrote: false });
    expect(rest).toEqual([whole("key-1")]);
  });

  test("is counted even if the lease was lost meanwhile", async () => {
    rig.holding = true;
    await rig.deliver(1);
    rig.intrude(2);
    const [append] = rig.held;
    const passing = append!.pass();
    rig.lose();
    await passing;
    expect(rig.refused).toBe(1);
    expect(rig.left).toEqual([]);
  });

  test("of an older owner that was thawed does not affect the newer one", async () => {
    rig.holding = true;
    await rig.deliver(1);
    const [stale] = rig.held.splice(0);
    rig.holding = false;
    rig.claim(2);
    await rig.deliver(1);
    const left = ['state {"n":2}', "ack 1", "answer 1 200"];
    expect(rig.left).toEqual(left);
    const stored = await rig.events();
    expect((await stale!.pass())._tag).toBe("Conflict");
    // It does not know yet that its lease is gone, and tries to activate its agent again.
    await rig.pass(60_000);
    expect(await rig.events()).toEqual(stored);
    expect(rig.left).toEqual(left);
    expect(await rig.get()).toEqual({ n: 2 });
  });
});

describe("commits of durable turns:", () => {
  test(`a durable turn that ends within ${GATHER_MS} ms of its first write is one event`, async () => {
    onInput = async (agent, text) => {
      await wait(500);
      agent.setState({ n: 5 });
      await wait(GATHER_MS - 1);
      agent.sql`INSERT INTO t VALUES (${text})`;
    };
    const before = (await rig.events()).length;
    await rig.deliver(1);
    await rig.pass(1000);
    expect(await turns()).toEqual([whole("key-1")]);
    expect(await rig.events()).toHaveLength(before + 1);
  });

  test("the commit of a turn that ends waits for a turn in the middle of its writes", async () => {
    const pauses: Record<string, number> = { "key-1": 20, "key-2": 5 };
    onInput = async (agent, text) => {
      agent.write(text);
      await wait(pauses[text]!);
    };
    await rig.deliver(1);
    await rig.deliver(2);
    await rig.pass(10);
    expect(await turns()).toEqual([]);
    await rig.pass(20);
    expect(await turns()).toEqual([whole("key-1"), whole("key-2")]);
  });

  test("no further input begins while a commit waits for that", async () => {
    onInput = async (agent, text) => {
      agent.write(text);
      if (text === "key-1") await wait(20);
    };
    await rig.deliver(1);
    await rig.deliver(2);
    await rig.deliver(3);
    expect(runs).toEqual(["key-1", "key-2"]);
    await rig.pass(30);
    expect(runs).toEqual(["key-1", "key-2", "key-3"]);
    expect(await turns()).toEqual([whole("key-1"), whole("key-2"), whole("key-3")]);
  });

  test("a call that writes waits for a turn in the middle of its writes, too", async () => {
    await rig.connect();
    onInput = async (agent, text) => {
      agent.write(text);
      agent.ctx.waitUntil(rig.get());
      setImmediate(() => agent.setState({ n: 9 }));
      await wait(20);
    };
    await rig.deliver(1);
    expect(await turns()).toEqual([]);
    await rig.pass(30);
    expect(await turns()).toEqual([whole("key-1")]);
  });

  test("a longer turn is committed in parts, without the writes of other running turns", async () => {
    const pauses: Record<string, number> = { "key-1": 500, "key-2": 20 };
    onInput = async (agent, text) => {
      if (text === "key-2") await wait(GATHER_MS - 10);
      agent.write(text);
      await wait(pauses[text]!);
    };
    await rig.deliver(1);
    await rig.deliver(2);
    await rig.pass(GATHER_MS + 5);
    expect(await turns()).toEqual([]);
    await rig.pass(100);
    const begun = { ...whole("key-1"), done: undefined, begun: true };
    expect(await turns()).toEqual([begun, whole("key-2")]);
    await rig.pass(1000);
    expect((await turns()).at(-1)).toEqual({ ...whole("key-1"), wrote: false });
  });

  test("SQL that changes no page writes no event", async () => {
    const before = await rig.events();
    await rig.connect();
    onInput = () => undefined;
    rig.lose();
    rig.claim(1);
    expect(await rig.get()).toEqual({ n: 1 });
    expect(await rig.events()).toEqual(before);
  });
});

describe("a crash", () => {
  test("after a flush in mid-turn: what was stored is undone, and the input runs again as attempt 2", async () => {
    let crashed = false;
    onInput = async (agent, text) => {
      agent.write(text);
      if (crashed) return;
      await agent.ctx.storage.sync();
      await wait(60_000);
    };
    await rig.deliver(1);
    const begun = { ...whole("key-1"), done: undefined, begun: true };
    expect(await turns()).toEqual([begun]);
    rig.lose();
    crashed = true;
    rig.claim(2);
    await rig.deliver(1);
    const undone = { ...begun, attempt: 1 };
    expect(await turns()).toEqual([begun, undone, { ...whole("key-1"), attempt: 2 }]);
    expect(await rig.get()).toEqual({ n: 2 });
  });

  test("before the commit: the input runs again as attempt 1, and its writes apply once", async () => {
    rig.holding = true;
    await rig.deliver(1);
    rig.lose();
    rig.holding = false;
    rig.claim(2);
    await rig.deliver(1);
    expect(runs).toEqual(["key-1", "key-1"]);
    expect(await turns()).toEqual([whole("key-1")]);
    expect(await rig.get()).toEqual({ n: 2 });
  });
});

describe("repeated and failing inputs", () => {
  test("a repetition of a running key waits, and is then a duplicate", async () => {
    onInput = async (agent, text) => {
      await wait(10);
      agent.write(text);
    };
    await rig.deliver(1, "same");
    await rig.deliver(2, "same");
    expect(runs).toEqual(["same"]);
    expect(rig.left).toEqual([]);
    await rig.pass(100);
    expect(runs).toEqual(["same"]);
    expect(rig.left.filter((it) => /ack|answer/.test(it))).toEqual([
      "ack 1",
      "answer 1 200",
      "ack 2",
      "answer 2 200 duplicate",
    ]);
    expect(await rig.get()).toEqual({ n: 2 });
  });

  test("a failed attempt is journaled before it is delayed, and its writes stay", async () => {
    onInput = (agent, text) => {
      agent.write(text);
      throw new Error("not yet");
    };
    rig.holding = true;
    await rig.deliver(1);
    while (rig.held.length > 0 && !rig.held[0]!.head.turns.some((t) => t.error !== undefined))
      await rig.held.shift()!.pass();
    expect(rig.left).not.toContain("nak 1");
    await rig.held[0]!.pass();
    expect(rig.left).toContain("nak 1");
    expect(rig.left.filter((it) => /ack|answer/.test(it))).toEqual([]);
  });

  test("the last failed attempt becomes a dead letter before it is journaled and acked", async () => {
    onInput = () => {
      throw new Error("never");
    };
    await rig.deliver(1);
    rig.holding = true;
    await rig.deliver(1);
    expect(rig.left).toEqual(["nak 1", "buried"]);
    expect(rig.held.map(({ head }) => head.turns[0]!.dead)).toEqual([true]);
    await rig.held[0]!.pass();
    expect(rig.left).toEqual(["nak 1", "buried", "ack 1", "answer 1 500"]);
    expect((await turns()).map(({ attempt, dead }) => [attempt, dead])).toEqual([
      [1, undefined],
      [2, true],
    ]);
    // Dead is dead: a redelivery is acked and not run, and another delivery of the key runs.
    rig.holding = false;
    onInput = (agent, text) => agent.write(text);
    await rig.deliver(1);
    expect(runs).toHaveLength(2);
    await rig.deliver(2, "key-1");
    expect(runs).toHaveLength(3);
  });
});

describe("a turn that has stored a part, and failed for good", () => {
  test.each(["a webhook", "a job"])(
    "is followed by no other write before its end: %s",
    async (kind) => {
      const [paying, burying] = [makeLatch(), makeLatch()];
      rig.mayBury = burying.opened;
      const failsIn = kind === "a job" ? "job" : "key-1";
      onInput = async (agent, text) => {
        if (kind === "a job" && text === "key-1")
          return void (await agent.queue("job", undefined, { retry: { maxAttempts: 1 } }));
        agent.write(text);
        if (text !== failsIn) return;
        await agent.step("pay", () => paying.opened, { undo: () => undefined });
        throw new Error("never");
      };
      Subject.options = { retry: { maxAttempts: 1 } };
      await rig.deliver(1);
      const wrote = async () =>
        (await rig.events()).flatMap(({ turns: all, part }) =>
          all.flatMap(({ cause, state }) =>
            state === undefined ? [] : [[cause.kind, cause.id, part]],
          ),
        );
      const before = await wrote();
      expect(before.at(-1)?.at(-1)).toBe(true);
      rig.holding = true;
      paying.open();
      await rig.settled();
      await rig.deliver(2);
      const steps: string[] = [];
      // The result, the beginning of the undoing, and the undo are slow; so is the dead letter.
      for (let append = rig.held.shift(); append !== undefined; append = rig.held.shift()) {
        await rig.pass(10 * GATHER_MS);
        steps.push(...append.head.turns.flatMap((turn) => turn.steps?.map(({ key }) => key) ?? []));
        await append.pass();
      }
      expect(steps).toEqual(["1:pay", "undoing", "undo 1:pay"]);
      await rig.pass(10 * GATHER_MS);
      expect(await wrote()).toEqual(before);
      rig.holding = false;
      burying.open();
      await rig.settled();
      expect((await wrote()).slice(before.length)).toEqual([["webhook", "key-2", undefined]]);
      expect(rig.left).toContain("answer 2 200");
    },
  );
});

describe("attempts", () => {
  test("an input whose agent is lost before it runs uses no attempt, and runs eventually", async () => {
    rig.lose();
    rig.claim(2);
    rig.holding = true;
    await rig.deliver(1);
    // Old enough that it may be what killed a host: it is announced.
    await rig.pass(5_000);
    for (let epoch = 3; epoch < 9; epoch++) {
      rig.lose();
      rig.held.length = 0;
      rig.claim(epoch);
      await rig.deliver(1);
      await rig.held[0]!.pass(); // the claim
      expect(rig.held[1]!.head.turns).toMatchObject([{ begun: true }]);
      // It is stored, and the host loses the agent before it hears of that.
      rig.store(rig.held[1]!);
      expect(runs).toEqual([]);
    }
    rig.holding = false;
    rig.claim(9);
    rig.left.length = 0;
    await rig.deliver(1);
    expect(rig.left).toContain("answer 1 200");
    expect(runs).toEqual(["key-1"]);
    expect((await turns()).at(-1)).toEqual({ ...whole("key-1") });
  });
});
