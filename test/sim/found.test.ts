/** Findings of the simulation, by the shortest reproduction (docs/evidence/findings.md). */
import { expect, test, vi } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import { Agent } from "../../core/agent/Agent.ts";
import { RECEIVE } from "../../core/input/runWorkflowSignal.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { Lanes } from "../../core/runtime/Lanes.ts";
import { GATHER_MS } from "../../core/turn/GatherTimer.ts";
import { CRASHES_MAX } from "../../core/workflow/stepFacts.ts";
import { AgentWorkflow } from "../../core/workflow/AgentWorkflow.ts";
import type { WorkflowClass } from "../../core/workflow/WorkflowEntrypoint.ts";
import { RunTable } from "../../core/workflow/RunTable.ts";
import { WorkflowRun } from "../../core/runtime/WorkflowRun.ts";
import type { WorkflowEvent, WorkflowStep } from "../../core/workflow/WorkflowStep.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { SnapshotPolicy } from "../../services/host/SnapshotPolicy.ts";
import { EndedSockets } from "../../services/host/slot/EndedSockets.ts";
import { CommitRig } from "../faults/CommitRig.ts";

const MAX_ATTEMPTS = 3;
/** Far more than both copies may take. */
const DELIVERIES_MAX = 40;
const plainPut = RunTable.prototype.put;
/** Far more than one life of a workflow needs. */
const APPENDS_MAX = 12;
/** Longer than an input is young, and than all of them take. */
const TAKE_OVER_MS = 4_000;

test("two copies of one poison webhook exhaust their attempts, although they alternate", async () => {
  let runs = 0;
  class Poisoned extends Agent<unknown> {
    static override options = {
      retry: { maxAttempts: MAX_ATTEMPTS, baseDelayMs: 1, maxDelayMs: 1 },
    };
    override onRequest(): Response {
      runs++;
      throw new Error("poison");
    }
    override onError(error: unknown): void {
      throw error;
    }
  }
  const rig = await CommitRig.make(Poisoned as unknown as AgentClassType);
  const acked = (seq: number): boolean => rig.left.includes(`ack ${seq}`);
  for (let n = 0; n < DELIVERIES_MAX && !(acked(1) && acked(2)); n++)
    for (const seq of [1, 2]) if (!acked(seq)) await rig.deliver(seq, "one key");
  expect({ acked: [acked(1), acked(2)], buried: rig.left.includes("buried") }).toEqual({
    acked: [true, true],
    buried: true,
  });
  expect(runs).toBeLessThanOrEqual(2 * MAX_ATTEMPTS);
});

test("an input's used attempts survive the agent's destruction; its jobs' attempts do not", () => {
  const id = agentId("Subject", "one");
  const image = new AgentImage(id);
  const event = (parts: Pick<JournalHead, "kind" | "turns">): JournalHead => ({
    id: "event", agent: [id.class, id.name], host: "host", epoch: 1, time: 1, ...parts,
  }); // prettier-ignore
  const begun = [
    { cause: { kind: "webhook", id: "input", seq: 7, attempt: 3 }, begun: true },
    { cause: { kind: "queue", id: "job", attempt: 2 }, begun: true },
  ] as const;
  applyEvent(image, 1 as Sequence, event({ kind: "turns", turns: [...begun] }));
  applyEvent(image, 2 as Sequence, event({ kind: "destroyed", turns: [] }));
  expect(image.begun.get("input")?.attempts).toBe(3);
  expect(image.begun.has("job")).toBe(false);
});

test("a turn that has written half may write the rest while destroy() waits for it: no half is ever stored", async () => {
  let rig!: CommitRig;
  class Halving extends Agent<unknown> {
    override async onRequest(request: Request): Promise<Response> {
      if ((await request.text()) === "end") {
        await this.destroy();
        return new Response("ended");
      }
      this.setState({ half: 1 });
      await new Promise<void>((resolve) => rig.time.after(GATHER_MS / 2, resolve));
      this.setState({ half: 2 });
      return new Response("whole");
    }
  }
  rig = await CommitRig.make(Halving as unknown as AgentClassType);
  await rig.deliver(1, "halves");
  await rig.deliver(2, "end");
  await rig.pass(GATHER_MS * 2);
  const events = await rig.events();
  expect(events.map(({ kind, turns }) => [kind, turns.map(({ state }) => state)])).toEqual([
    ["turns", [{ set: { half: 2 } }]],
    ["destroyed", [undefined]],
  ]);
  expect(events[0]!.turns[0]!.done).toEqual(["halves"]);
  expect(rig.left).toContain("answer 1 200");
});

test("an input that kills its host uses its own attempts, however many others wait before it", async () => {
  const innocent = [1, 2, 3, 4, 5];
  const killer = 6;
  let rig!: CommitRig;
  let deaths = 0;
  class Killed extends Agent<unknown> {
    static override options = { retry: { maxAttempts: MAX_ATTEMPTS } };
    override async onRequest(request: Request): Promise<Response> {
      if ((await request.text()) === "kill") {
        deaths++;
        rig.lose();
        await new Promise<never>(() => undefined);
      }
      await new Promise<void>((resolve) => rig.time.after(GATHER_MS, resolve));
      return new Response("done");
    }
  }
  rig = await CommitRig.make(Killed as unknown as AgentClassType);
  for (let epoch = 2; epoch < DELIVERIES_MAX && !rig.left.includes(`ack ${killer}`); epoch++) {
    const waiting = [...innocent, killer].filter((seq) => !rig.left.includes(`ack ${seq}`));
    for (const seq of waiting) await rig.deliver(seq, `key-${seq}`, seq === killer ? "kill" : "");
    // Each waits for its own time when it runs alone; then it is the next owner's.
    await rig.pass(TAKE_OVER_MS);
    if (!rig.left.includes(`ack ${killer}`)) rig.claim(epoch);
  }
  expect(rig.left.filter((it) => /ack|buried/.test(it)).toSorted()).toEqual([
    ...[...innocent, killer].map((seq) => `ack ${seq}`),
    "buried",
  ]);
  // Young it is not marked, and the last that is allowed may not have ended.
  expect(deaths).toBeLessThanOrEqual(MAX_ATTEMPTS + 2);
});

test("an input that kills its host is marked, even if older ones run in each life, and completes just in time", async () => {
  const [firstMs, deathMs] = [1, 20];
  const innocent = Array.from({ length: 12 }, (_, n) => n + 1);
  const killer = innocent.length + 1;
  let rig!: CommitRig;
  let deaths = 0;
  let begun = 0;
  class Killed extends Agent<unknown> {
    static override options = { retry: { maxAttempts: MAX_ATTEMPTS } };
    override async onRequest(request: Request): Promise<Response> {
      const waits = (ms: number) => new Promise<void>((resolve) => rig.time.after(ms, resolve));
      if ((await request.text()) === "kill") {
        await waits(deathMs);
        deaths++;
        rig.lose();
        await new Promise<never>(() => undefined);
      }
      // The first of this life ends before the death, the others after it.
      await waits(begun++ === 0 ? firstMs : 2 * deathMs);
      return new Response("done");
    }
  }
  rig = await CommitRig.make(Killed as unknown as AgentClassType);
  for (let epoch = 2; epoch < DELIVERIES_MAX && !rig.left.includes(`ack ${killer}`); epoch++) {
    begun = 0;
    const waiting = [...innocent, killer].filter((seq) => !rig.left.includes(`ack ${seq}`));
    await Promise.all(
      waiting.map((seq) => rig.deliver(seq, `key-${seq}`, seq === killer ? "kill" : "")),
    );
    await rig.pass(TAKE_OVER_MS);
    if (!rig.left.includes(`ack ${killer}`)) rig.claim(epoch);
  }
  expect(rig.left.filter((it) => it.startsWith("ack"))).toHaveLength(killer);
  expect(rig.left.filter((it) => it === "buried")).toHaveLength(1);
  // Young it is not marked, and the last that is allowed may not have ended.
  expect(deaths).toBeLessThanOrEqual(MAX_ATTEMPTS + 2);
});

test("a trigger that fires before its schedule's row is dropped with it, whether cancelled or delayed by a clock set back", async () => {
  for (const end of ["cancelled", "set back"] as const) {
    let rig!: CommitRig;
    let [id, dueMs] = ["", 0];
    let ran = 0;
    class Planner extends Agent<unknown> {
      override async onRequest(request: Request): Promise<Response> {
        if ((await request.text()) === "plan") {
          dueMs = rig.time.nowMs() + 1_000;
          ({ id } = await this.schedule(1, "tick"));
        } else await this.cancelSchedule(id);
        return new Response("done");
      }
      tick(): void {
        ran++;
      }
    }
    rig = await CommitRig.make(Planner as unknown as AgentClassType);
    rig.holding = true;
    await rig.deliver(1, "plan");
    await rig.pass(1_500);
    await rig.deliver(2, `schedule:${id}:${dueMs}`, "", "schedule");
    if (end === "cancelled") await rig.deliver(3, "cancel");
    else rig.time.jump(-5_000);
    rig.holding = false;
    await rig.held[0]!.pass();
    await rig.pass(1);
    expect(ran, end).toBe(0);
    expect(rig.left, end).toContain(end === "cancelled" ? "ack 2" : "nak 2");
    await rig.pass(6_000);
    expect(ran, end).toBe(end === "cancelled" ? 0 : 1);
  }
});

test("a job that began beside an input that kills its host keeps its attempts", async () => {
  const [order, killer] = [1, 2];
  let rig!: CommitRig;
  let deaths = 0;
  let jobs = 0;
  class Beside extends Agent<unknown> {
    static override options = { retry: { maxAttempts: MAX_ATTEMPTS } };
    override async onRequest(request: Request): Promise<Response> {
      if ((await request.text()) === "order") await this.queue("job");
      else {
        deaths++;
        rig.lose();
        await new Promise<never>(() => undefined);
      }
      return new Response("done");
    }
    async job(): Promise<void> {
      jobs++;
      await new Promise<void>((resolve) => rig.time.after(GATHER_MS, resolve));
    }
  }
  rig = await CommitRig.make(Beside as unknown as AgentClassType);
  await rig.deliver(order, "order");
  for (let epoch = 2; epoch < DELIVERIES_MAX && !rig.left.includes(`ack ${killer}`); epoch++) {
    await rig.deliver(killer, "kill");
    await rig.pass(TAKE_OVER_MS);
    if (!rig.left.includes(`ack ${killer}`)) rig.claim(epoch);
  }
  const events = await rig.events();
  const ends = events.flatMap(({ turns }) => turns.filter(({ cause }) => cause.kind === "queue"));
  expect(ends.map(({ done, dead }) => [done?.length, dead]).at(-1)).toEqual([1, undefined]);
  // It runs beside the first death and the second, and once more.
  expect(jobs).toBeLessThanOrEqual(MAX_ATTEMPTS);
  expect(deaths).toBeGreaterThan(MAX_ATTEMPTS);
});

test("a job's trigger that can't be looked up ends only its agent", () => {
  const abort = vi.fn();
  const query = (): never => {
    throw new Error("the file ends in page 3");
  };
  const agent = { abort, database: { query, isEmpty: false } };
  const lanes = new Lanes(agent as never, { jobs: {} } as never);
  lanes.offer("queue", "queue:one", { ack: () => {}, nak: () => {} } as never);
  expect(abort).toHaveBeenCalledWith(expect.stringContaining("the file ends in page 3"));
});

/** An instance that any webhook starts. */
function instanceOf(run: (step: WorkflowStep) => Promise<unknown>): AgentClassType {
  class Flow extends AgentWorkflow {
    override run(_event: WorkflowEvent, step: WorkflowStep): Promise<unknown> {
      return run(step);
    }
  }
  class Instance extends WorkflowRun {
    override readonly workflowClass = Flow as unknown as WorkflowClass;
    override async onRequest(): Promise<Response> {
      await this.begin("Flow", null);
      return new Response("begun");
    }
  }
  return Instance as unknown as AgentClassType;
}

test("asking a lost agent for a job fails with the agent's loss, which workflows handle, not with a closed database", async () => {
  const asks: Array<() => Promise<unknown>> = [];
  class Late extends Agent<unknown> {
    override onRequest(): Response {
      asks.push(
        () => this.queue("job", 1),
        () => this.schedule(1, "job", 1),
      );
      return new Response("begun");
    }
    job(): void {}
  }
  const rig = await CommitRig.make(Late as unknown as AgentClassType);
  await rig.deliver(1);
  rig.lose();
  expect(asks).toHaveLength(2);
  for (const ask of asks) await expect(ask()).rejects.toThrow(AgentDiscarded);
});

test("an event that arrives before its workflow's start is kept until the start", async () => {
  let heard: unknown;
  class Waiting extends AgentWorkflow {
    override async run(_event: WorkflowEvent, step: WorkflowStep): Promise<unknown> {
      heard = (await step.waitForEvent("go on", { type: "go" })).payload;
      return heard;
    }
  }
  let rig!: CommitRig;
  class Instance extends WorkflowRun {
    override readonly workflowClass = Waiting as unknown as WorkflowClass;
    override async onRequest(request: Request): Promise<Response> {
      if ((await request.text()) === "start") await this.begin("Waiting", null);
      else
        await this[RECEIVE]({ kind: "event", type: "go", payload: "now", time: rig.time.nowMs() });
      return new Response("taken");
    }
  }
  rig = await CommitRig.make(Instance as unknown as AgentClassType);
  await rig.deliver(1, "event");
  await rig.deliver(2, "start");
  await rig.pass(TAKE_OVER_MS);
  expect(heard).toBe("now");
});

test("a sleeping workflow wakes, even if the clock is set back between its wake and the check", async () => {
  const napMs = 1_000;
  let woke = false;
  const rig = await CommitRig.make(
    instanceOf(async (steps) => {
      await steps.sleep("nap", napMs);
      woke = true;
    }),
  );
  await rig.deliver(1);
  await rig.pass(GATHER_MS);
  rig.holding = true;
  await rig.pass(napMs);
  // The turn of the wake waits to be stored; the drive that looks at the clock comes after it.
  expect(rig.held).not.toEqual([]);
  rig.time.jump(-napMs);
  rig.holding = false;
  for (const append of rig.held.splice(0)) await append.pass();
  await rig.settled();
  expect(woke).toBe(false);
  await rig.pass(napMs * 3);
  expect(woke).toBe(true);
});

test.each(["step", "run"])(
  "a workflow's %s that kills its host before producing output uses up its attempts, and fails",
  async (place) => {
    let rig!: CommitRig;
    let deaths = 0;
    const kill = (): Promise<never> => {
      deaths++;
      rig.held.length = 0;
      rig.lose();
      return new Promise(() => undefined);
    };
    const actor = instanceOf((step) => {
      if (place === "run") return kill();
      return step.do("first", () => "done").then(() => step.do("kill", kill));
    });
    rig = await CommitRig.make(actor);
    rig.holding = true;
    const ends = async () =>
      (await rig.events())
        .flatMap(({ turns }) => turns)
        .filter(({ cause }) => cause.type === "errored");
    for (let epoch = 2; epoch < DELIVERIES_MAX && (await ends()).length === 0; epoch++) {
      await rig.deliver(1);
      for (let n = 0; n < APPENDS_MAX; n++) {
        for (const append of rig.held.splice(0)) await append.pass();
        await rig.pass(GATHER_MS);
      }
      if ((await ends()).length === 0) rig.claim(epoch);
    }
    expect(await ends()).toHaveLength(1);
    // The first is not told from a start; another step may have got on in the second.
    expect(deaths).toBeLessThanOrEqual(CRASHES_MAX + 2);
  },
);

test("an agent whose local file fails at eviction is still evicted, and so are the next ones", () => {
  const said: string[] = [];
  const image = (): never => {
    throw new Error("the disk fails");
  };
  const id = agentId("Subject", "one");
  const agent = {
    id,
    image: Object.assign(new AgentImage(id), { eventsSince: 100 }),
    database: { image },
  };
  const services = { log: { warn: (what: string) => said.push(what) } };
  const policy = new SnapshotPolicy(agent as never, services as never);
  policy.beforeHibernation();
  expect(said).toEqual(["a snapshot could not be taken"]);
});

test("a step whose result can't be recorded restarts with its agent, and does not end the host", async () => {
  let runs = 0;
  let ended: unknown;
  const put = vi.spyOn(RunTable.prototype, "put").mockImplementation(function (
    this: RunTable,
    step,
  ) {
    if (step.endedAt !== null && runs === 1) throw new Error("the disk fails");
    plainPut.call(this, step);
  });
  const rig = await CommitRig.make(
    instanceOf(async (step) => {
      ended = await step.do("count", () => ++runs);
    }),
  );
  await rig.deliver(1);
  await rig.pass(GATHER_MS);
  expect([runs, ended]).toEqual([1, undefined]);
  // Anything that comes brings it back.
  await rig.deliver(1);
  await rig.pass(GATHER_MS);
  put.mockRestore();
  expect([runs, ended]).toEqual([2, 2]);
});

test("an agent's call is not repeated once the calling agent is lost", async () => {
  const time = new VirtualTime();
  const connection = new MemoryBroker({ time }).connect("host");
  const subjects = new Subjects();
  let asked = 0;
  const bus = makeMemoryBus(connection);
  const counted: typeof bus = {
    ...bus,
    request: (...given) => {
      asked++;
      return bus.request(...given);
    },
  };
  const caller = {
    image: { id: agentId("Board", "caller") },
    isLost: false,
    suspects: { any: false },
  };
  const calls = new CallClient({
    bus: counted,
    blobs: makeMemoryBlobs(connection),
    time,
    subjects,
    shards: subjects.layout.shards,
    caller: () => caller,
  });
  // Nobody owns it: the call is held.
  const call = calls
    .call(agentId("Board", "one"), { kind: "state" }, { deadlineMs: 60_000, repeatable: false })
    .then(() => "answered", String);
  await time.advance(1_000);
  expect(asked).toBeGreaterThan(3);
  caller.isLost = true;
  const before = asked;
  await time.advance(1_000);
  expect(await call).toMatch("the agent that called it has left this host");
  expect(asked).toBe(before);
});

test("a message of a closed socket is not confirmed: a disconnected gateway sends it again", async () => {
  const ended = new EndedSockets(new Set());
  const at = { gateway: "gateway", sid: "socket" };
  const close = { kind: "close", ...at, code: 1006, reason: "", wasClean: false } as const;
  const message = { kind: "message", ...at, text: true, number: 1 } as const;
  await ended.ask(close, 0, () => Promise.resolve({ reply: { kind: "taken" } }));
  const { reply } = await ended.ask(message, 1, () =>
    Promise.resolve({ reply: { kind: "unknownSocket" } }),
  );
  expect(reply).toEqual({ kind: "unknownSocket" });
});
