/** Agents that run alone, without processes: their processes by hand, under virtual time. */
import { beforeEach, describe, expect, it } from "vitest";
import type { Epoch } from "../../schemas/Address.ts";
import type { AgentKey, IsolatedAsk, IsolatedReply } from "../../core/input/Isolation.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import type { Stall } from "../../services/watchdog/pausedCode.ts";
import type { Ending } from "../../services/watchdog/reports.ts";
import { IsolationWard } from "../../services/workers/IsolationWard.ts";
import { collectingLog } from "../kit/system.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { IsolateRequest } from "../../services/workers/messages.ts";
import { HandWorker } from "./HandWorker.ts";

const BAD: AgentKey = { class: "Repo", name: "bad" };
const endingOf = (agent: AgentKey, key = "key"): Ending => ({
  reason: "its turn held the thread",
  turn: { ...agent, turn: "webhook", attempt: 1, key },
  exactly: true,
});

let time: VirtualTime;
let ward: IsolationWard;
let processes: HandWorker[];
let isolated: AgentKey[];
let returned: AgentKey[];
/** What the second worker was told. */
let told: string[];
let replies: IsolatedReply[];
let endsWhenStopped: boolean;

const owner = {
  isolates: (agent: AgentKey) => void isolated.push(agent),
  returns: (agent: AgentKey) => void returned.push(agent),
};
const other = {
  isolates: ({ name }: AgentKey) => void told.push(`isolates ${name}`),
  returns: ({ name }: AgentKey) => void told.push(`returns ${name}`),
};
const ask = (agent = BAD, of = 0, asked: IsolatedAsk = { kind: "call", data: "" }, epoch = 1) =>
  ward.ask(of, { n: 1, agent, owner: { epoch: epoch as Epoch, host: "h" }, ask: asked }, (reply) =>
    replies.push(reply),
  );
const serve = async (process = processes.at(-1)!): Promise<void> => {
  process.serve({ admin: "" });
  await time.advance(0);
};
const end = async (process = processes.at(-1)!): Promise<void> => {
  process.end({ code: null, signal: "SIGKILL" });
  await time.advance(0);
};
/** The numbers of what was passed to a process. */
const passed = (process = processes.at(-1)!): number[] =>
  process.sent.flatMap((message) => ("isolate" in message ? [message.isolate.n] : []));

beforeEach(() => {
  time = new VirtualTime();
  processes = [];
  isolated = [];
  returned = [];
  told = [];
  replies = [];
  endsWhenStopped = true;
  ward = new IsolationWard({
    time,
    log: collectingLog(),
    start: () => {
      const process = new HandWorker({ endsWhenStopped });
      processes.push(process);
      return process;
    },
  });
  ward.join(0, owner);
});

describe("an agent whose turn ended its worker", () => {
  it("is isolated from the next worker on, unless the process ended outside a turn", () => {
    ward.ended(0, endingOf(BAD));
    expect(ward.join(0, owner)).toEqual([BAD]);
    ward.ended(1, undefined);
    ward.ended(1, { reason: "code of no turn", turn: undefined, exactly: true });
    expect(ward.agents).toEqual([BAD]);
  });

  it("runs alone in every worker: the one with the latest epoch has its process", async () => {
    ward.join(1, other);
    ward.ended(0, endingOf(BAD));
    expect(told).toEqual(["isolates bad"]);
    ward.join(0, owner);
    ask();
    await serve();
    ask(BAD, 1, { kind: "call", data: "" }, 2);
    expect([processes.length, processes[0]!.killed]).toEqual([2, true]);
    // The first one's, for its slot to pass again or to forget.
    expect(replies).toEqual([{ kind: "ended" }]);
    await serve();
    expect(passed()).toEqual([2]);
    ask();
    expect(replies).toEqual([{ kind: "ended" }, { kind: "ended" }]);
    ward.lost(0, BAD);
    ward.left(0, BAD);
    expect([ward.agents, processes[1]!.stopped]).toEqual([[BAD], false]);
    // The first worker's end is not that of the second one's agents.
    ward.ended(0, undefined);
    expect(processes[1]!.killed).toBe(false);
  });

  it("that returned in one worker returns in all", () => {
    ward.join(1, other);
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ward.left(0, BAD);
    expect([ward.agents, told]).toEqual([[], ["isolates bad", "returns bad"]]);
  });

  it("gets a process with the first input passed, and waiting ones once it serves", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    expect(processes).toEqual([]);
    ask();
    ask();
    expect([processes.length, passed()]).toEqual([1, []]);
    await serve();
    ask();
    expect(passed()).toEqual([1, 2, 3]);
    ward.answered(2, { kind: "acked" });
    expect(replies).toEqual([{ kind: "acked" }]);
  });

  it("that freezes its process has another one after a minute", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    processes[0]!.report({ beat: true, held: false });
    await time.advance(59_000);
    expect(processes[0]!.killed).toBe(false);
    await time.advance(2_000);
    expect([processes[0]!.killed, replies]).toEqual([true, [{ kind: "ended" }]]);
    ask();
    await time.advance(5_000);
    expect(processes).toHaveLength(2);
  });

  it("has its pending requests answered when its process ends, and the next starts after a pause", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    const pauses: number[] = [];
    for (let ends = 0; ends < 4; ends++) {
      ask();
      const startMs = time.monotonicMs();
      while (processes.length === ends) await time.advance(100);
      pauses.push(time.monotonicMs() - startMs);
      await serve();
      await end();
      expect(replies).toHaveLength(ends + 1);
    }
    expect(new Set(replies.map(({ kind }) => kind))).toEqual(new Set(["ended"]));
    expect(pauses[0]).toBe(0);
    expect(pauses[3]).toBeGreaterThan(pauses[1]!);
  });

  it("is drained in the pause before its next process: sockets are not reported, and waiting requests are answered", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await end();
    replies.length = 0;
    ask();
    ask(BAD, 0, { kind: "drain" });
    expect(replies).toEqual([{ kind: "ended" }]);
    ward.left(0, BAD);
    expect(replies).toEqual([{ kind: "ended" }, { kind: "ended" }]);
  });

  it("returns after some time without ending a process, and later after each end", async () => {
    const isolate = async (): Promise<number> => {
      ward.ended(0, endingOf(BAD));
      ward.join(0, owner);
      ask();
      await serve();
      ward.answered(passed().at(-1)!, { kind: "acked" });
      const startMs = time.monotonicMs();
      const before = returned.length;
      while (returned.length === before) await time.advance(1_000);
      ward.left(0, BAD);
      expect([ward.agents, processes.at(-1)!.stopped]).toEqual([[], true]);
      return time.monotonicMs() - startMs;
    };
    const first = await isolate();
    const second = await isolate();
    expect(first).toBeGreaterThanOrEqual(20_000);
    expect(second).toBeGreaterThanOrEqual(4 * 20_000);
  });

  const killWith = async (key: string | undefined): Promise<void> => {
    const { length } = processes;
    ask();
    while (processes.length === length) await time.advance(100);
    await serve();
    const turn = { ...BAD, turn: "webhook", attempt: 1, ...(key !== undefined && { key }) };
    processes.at(-1)!.report({ ending: { reason: "it spins", turn, exactly: true } });
    await end();
  };

  it("is condemned once when three of its inputs have ended processes, and then starts over", async () => {
    ward.ended(0, endingOf(BAD, "one"));
    ward.join(0, owner);
    for (const key of ["one", "two", "two", "one"]) await killWith(key);
    expect(replies.map(({ kind }) => kind)).toEqual(["ended", "ended", "ended", "ended"]);
    await killWith("three");
    expect(replies.at(-1)).toMatchObject({ kind: "condemned", why: "kills" });
    expect((replies.at(-1) as { reason: string }).reason).toContain("it spins");
    await killWith("three");
    expect(replies.at(-1)).toEqual({ kind: "ended" });
  });

  it("is condemned when its worker's end is the third, before it runs again", () => {
    for (const key of ["one", "two", "three"]) {
      ward.ended(0, endingOf(BAD, key));
      ward.join(0, owner);
    }
    ask();
    expect(replies).toEqual([expect.objectContaining({ kind: "condemned" })]);
    expect(processes).toEqual([]);
  });

  it("is not condemned for ends that another agent may have caused", () => {
    for (const key of ["one", "two", "three", "four"]) {
      ward.ended(0, { ...endingOf(BAD, key), exactly: false });
      ward.join(0, owner);
    }
    ask();
    expect(processes).toHaveLength(1);
  });

  it.each(["whose shard is lost", "that runs"])(
    "%s: its process is killed if it does not stop, and the ward waits for it",
    async (which) => {
      endsWhenStopped = false;
      ward.ended(0, endingOf(BAD));
      ward.join(0, owner);
      ask();
      await serve();
      if (which === "whose shard is lost") ward.lost(0, BAD);
      let stopped = false;
      void ward.stop().then(() => (stopped = true));
      await time.advance(4_000);
      expect([processes[0]!.stopped, processes[0]!.killed, stopped]).toEqual([true, false, false]);
      await time.advance(1_000);
      expect([processes[0]!.killed, stopped]).toEqual([true, true]);
    },
  );

  it("whose shard is lost has no process, and is still isolated when the shard returns", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    ward.lost(0, BAD);
    expect([processes[0]!.stopped, ward.agents]).toEqual([true, [BAD]]);
    // For what still waits in the worker.
    expect(replies).toEqual([{ kind: "ended" }]);
    ask();
    expect(processes).toHaveLength(2);
  });

  it("stays isolated while its work is in progress", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    await time.advance(600_000);
    expect(returned).toEqual([]);
  });

  it("returns at once for new code", () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ward.returnAll(0);
    expect(returned).toEqual([BAD]);
  });

  it("is unowned while its worker is away: its process ends, and the next starts over", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    ward.ended(0, undefined);
    expect(processes[0]!.killed).toBe(true);
    await time.advance(0);
    expect(ward.join(0, owner)).toEqual([BAD]);
    ask();
    expect(processes).toHaveLength(2);
    // That the first was killed is not held against the agent. The answer is the ended worker's.
    expect(replies).toEqual([{ kind: "ended" }]);
  });

  const FIVE = Array.from({ length: 5 }, (_, n) => ({ class: "Repo", name: `bad-${n}` }));
  const isolateFive = (): void => {
    for (const agent of FIVE) ward.ended(0, endingOf(agent));
    ward.join(0, owner);
  };
  /** Isolates five agents, of which four have a process. The first has the sockets. */
  const fillProcesses = async (sockets: ReadonlyArray<SocketInfo> = []): Promise<void> => {
    isolateFive();
    for (const agent of FIVE.slice(0, 4)) {
      ask(agent, 0, { kind: "sockets", sockets: agent.name === "bad-0" ? sockets : [] });
      ask(agent);
      await serve();
    }
  };
  const answerAll = (): void => {
    for (const process of processes)
      for (const n of passed(process)) ward.answered(n, { kind: "acked" });
  };
  /** What a process was asked last. */
  const lastAsked = (process: HandWorker): IsolateRequest =>
    process.sent.flatMap((message) => ("isolate" in message ? [message.isolate] : [])).at(-1)!;

  it("waits while four others are busy, until the process of one of them ends", async () => {
    await fillProcesses();
    ask(FIVE[4]!);
    await time.advance(30_000);
    expect([processes.length, processes.map(({ stopped }) => stopped)]).toEqual([
      4,
      [false, false, false, false],
    ]);
    await end(processes[0]);
    await time.advance(1_000);
    expect(processes).toHaveLength(5);
    await serve();
    expect(lastAsked(processes[4]!).agent).toEqual(FIVE[4]);
  });

  it("takes the process of the idle one that has it for longest, and leaves it some time", async () => {
    await fillProcesses();
    answerAll();
    ask(FIVE[4]!);
    await time.advance(5_000);
    expect(processes).toHaveLength(4);
    ask(FIVE[0]!);
    await time.advance(10_000);
    expect(lastAsked(processes[1]!).ask).toEqual({ kind: "yield" });
    ward.answered(lastAsked(processes[1]!).n, { kind: "drained", sockets: [] });
    expect([processes.length, processes[1]!.stopped]).toEqual([5, true]);
    await serve();
    expect(lastAsked(processes[4]!).agent).toEqual(FIVE[4]);
    // Nothing more is taken.
    await time.advance(20_000);
    expect(processes.map(({ stopped }) => stopped)).toEqual([false, true, false, false, false]);
  });

  it("takes another's process where the first one's agent does something by itself", async () => {
    await fillProcesses();
    answerAll();
    ask(FIVE[4]!);
    await time.advance(11_000);
    const { n, ask: asked } = lastAsked(processes[0]!);
    expect(asked).toEqual({ kind: "yield" });
    ask(FIVE[0]!);
    expect(lastAsked(processes[0]!).n).toBe(n);
    ward.answered(n, { kind: "busy" });
    expect(lastAsked(processes[0]!).ask).toEqual({ kind: "call", data: "" });
    await time.advance(1_000);
    expect(lastAsked(processes[1]!).ask).toEqual({ kind: "yield" });
  });

  it("whose process was taken has its sockets and what waited in the next one", async () => {
    const socket: SocketInfo = { gateway: "g", sid: "1", id: "c", url: "/", headers: [] };
    await fillProcesses([socket]);
    answerAll();
    ask(FIVE[4]!);
    await time.advance(11_000);
    ask(FIVE[0]!);
    ward.answered(lastAsked(processes[0]!).n, { kind: "drained", sockets: [socket] });
    await serve();
    expect(lastAsked(processes[4]!).agent).toEqual(FIVE[4]);
    // Found by a census meanwhile.
    ask(FIVE[0]!, 0, { kind: "sockets", sockets: [{ ...socket, sid: "2" }] });
    await time.advance(1_000);
    ward.answered(lastAsked(processes[1]!).n, { kind: "drained", sockets: [] });
    await serve();
    const asks = processes[5]!.sent.flatMap((message) =>
      "isolate" in message ? [message.isolate] : [],
    );
    expect(asks.map(({ agent }) => agent)).toEqual([FIVE[0], FIVE[0]]);
    expect(asks.map(({ ask: { kind } }) => kind)).toEqual(["sockets", "call"]);
    expect(asks[0]!.ask).toEqual({ kind: "sockets", sockets: [socket, { ...socket, sid: "2" }] });
  });

  it("is drained while its process is being taken, and starts no process for its sockets", async () => {
    await fillProcesses();
    answerAll();
    ask(FIVE[4]!);
    await time.advance(11_000);
    replies.length = 0;
    ask(FIVE[0]!, 0, { kind: "drain" });
    ward.answered(lastAsked(processes[0]!).n, { kind: "drained", sockets: [] });
    expect(replies).toEqual([{ kind: "drained", sockets: [] }]);
    await serve();
    answerAll();
    const socket: SocketInfo = { gateway: "g", sid: "1", id: "c", url: "/", headers: [] };
    ask(FIVE[0]!, 0, { kind: "sockets", sockets: [socket] });
    await time.advance(12_000);
    expect(processes).toHaveLength(5);
  });

  it("stops with its process when the worker pool ends, and is not started again", async () => {
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    await ward.stop();
    expect(processes[0]!.stopped).toBe(true);
    ask();
    await time.advance(60_000);
    expect(processes).toHaveLength(1);
  });
});

describe("an agent that holds its worker's thread, each time for less than its limit", () => {
  const STALL: Stall = {
    className: BAD.class,
    name: BAD.name,
    ms: 4_000,
    waitedMs: 0,
    exactly: true,
  };
  /** Holds of four seconds each, one in `everyMs`, for a minute. */
  const hold = async (everyMs: number, more: Partial<Stall> = {}, agent = BAD): Promise<void> => {
    const stall = { ...STALL, name: agent.name, ...more };
    for (let passedMs = 0; passedMs < 60_000; passedMs += everyMs) {
      await time.advance(everyMs);
      ward.held(0, stall);
    }
  };

  it("is isolated in all workers, with neither end nor restart", async () => {
    ward.join(1, other);
    await hold(6_000);
    expect([ward.agents, isolated, told]).toEqual([[BAD], [BAD], ["isolates bad"]]);
    ask();
    await serve();
    expect(passed()).toEqual([1]);
  });

  it("is left where it is below half of the time", async () => {
    await hold(9_000);
    expect(ward.agents).toEqual([]);
  });

  it("is isolated where the thread mostly waits for a processor, if it holds it most of the rest", async () => {
    let waitedMs = 0;
    const holdBeside = async (ms: number): Promise<void> => {
      for (let n = 0; n < 40; n++) {
        await time.advance(20_000);
        ward.held(0, { ...STALL, ms, waitedMs: (waitedMs += 16_000) });
      }
    };
    await holdBeside(1_500);
    expect(ward.agents).toEqual([]);
    await holdBeside(2_500);
    expect(ward.agents).toEqual([BAD]);
  });

  it("is left where it is while the holds are of several workers' threads", async () => {
    ward.join(1, other);
    for (let n = 0; n < 10; n++) {
      await time.advance(6_000);
      ward.held(n % 2, STALL);
    }
    expect(ward.agents).toEqual([]);
  });

  it("is left where it is if the turn may have been another's", async () => {
    await hold(6_000, { exactly: false });
    expect(ward.agents).toEqual([]);
  });

  it("is left where it is while there is no process for it", async () => {
    const agents = Array.from({ length: 4 }, (_, n) => ({ class: "Repo", name: `bad-${n}` }));
    for (const agent of agents) ward.ended(0, endingOf(agent));
    ward.join(0, owner);
    for (const agent of agents) {
      ask(agent);
      await serve();
    }
    await hold(6_000);
    expect(ward.agents).toEqual(agents);
    // The first one is idle now.
    ward.answered(1, { kind: "acked" });
    await hold(6_000);
    expect(ward.agents).toContainEqual(BAD);
  });

  it("returns, busy or not, when it has held no thread for a while", async () => {
    await hold(6_000);
    let n = 0;
    const work = async (seconds: number, holds: boolean): Promise<void> => {
      for (let second = 0; second < seconds; second++) {
        ask();
        if (n === 0) await serve();
        if (holds) processes.at(-1)!.report({ stall: { ...STALL, ms: 300 } });
        ward.answered(++n, { kind: "acked" });
        await time.advance(1_000);
      }
    };
    await work(60, true);
    expect(returned).toEqual([]);
    await work(18, false);
    expect(returned).toEqual([]);
    await work(3, false);
    expect(returned[0]).toEqual(BAD);
  });

  it("that ends its worker before it has left it is isolated for the longer time", async () => {
    await hold(6_000);
    ward.ended(0, endingOf(BAD));
    ward.join(0, owner);
    ask();
    await serve();
    ward.answered(1, { kind: "acked" });
    await time.advance(60_000);
    expect(returned).toEqual([]);
    await time.advance(21_000);
    expect(returned).toEqual([BAD]);
  });
});
