/** How often a call of a lost host is repeated. With real processes: `attack/killingCall`. */
import { describe, expect, test } from "vitest";
import { AgentUnreachable, CallLost, CallTimedOut } from "../../core/call/AgentUnreachable.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { CallTries } from "../../core/call/CallTries.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { handleCall } from "../../core/runtime/handleCall.ts";
import { Suspects } from "../../core/input/Suspects.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import { Unbegun } from "../../core/input/Unbegun.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { AgentCall, Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { ANSWER_TIMEOUT_MS, askHost } from "../../services/gateway/askHost.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const ID = agentId("Board", "one");
const CALL = { kind: "state" } as const;
const HOW = { deadlineMs: 60_000, repeatable: true };
const ANSWER: CallReply = { kind: "result", value: "done" };
/** More than the wait between two tries. */
const SOON_MS = 1_000;
/** A host that only stalled has come back by then. */
const RETURN_MS = 6_000;

type Answer = CallReply | undefined;

function make(suspects = { any: false }) {
  const time = new VirtualTime();
  const broker = new MemoryBroker({ time });
  const connection = broker.connect("gateway");
  const { subjects, shards } = broker;
  const bus = makeMemoryBus(connection);
  const hostBus = makeMemoryBus(broker.connect("host"));
  const shard = shardOf(ID, shards);
  const calls = new CallClient({
    bus, blobs: makeMemoryBlobs(connection), time, subjects, shards,
    caller: () => ({ image: { id: agentId("Board", "caller") }, isLost: false, suspects }),
  }); // prettier-ignore
  const heard: Call[] = [];
  let answer: (call: Call) => Answer = () => undefined;
  let leave: () => Promise<void> = async () => undefined;
  let revision = 0;
  let number = 0;
  const lease = (key: string, value: string | undefined, before?: string, released?: true): void =>
    calls.leaseChanged(
      { key, revision: ++revision, value, ...(released === undefined ? {} : { released }) },
      before,
    );
  const host = {
    /** A host takes the shard, and answers so; undefined: it does not answer. */
    comes: (answers: (call: Call) => Answer = () => undefined): void => {
      answer = answers;
      leave = hostBus.subscribe(subjects.callsOfShard(shard), ({ data, reply }) => {
        const { head } = decodeMessage<Call>(data);
        heard.push(head);
        const given = answer(head);
        if (given !== undefined) hostBus.publish(reply!, encodeMessage(given));
      });
      lease(`host.${++number}`, `${number}`);
      lease(`shard.${shard}`, `${number}`);
    },
    /** It is gone from the broker, and its leases run on. */
    dies: () => leave(),
    leasesEnd: (released?: true): void => {
      lease(`shard.${shard}`, undefined, `${number}`, released);
      lease(`host.${number}`, undefined, `${number}`, released);
    },
    /** One that was stalled claims its own lease again. */
    returns: (): void => lease(`host.${number}`, `${number}`),
    lost: async (): Promise<void> => {
      await host.dies();
      host.leasesEnd();
    },
  };
  const outcome = (asked: Promise<unknown>) => {
    const of = { now: undefined as unknown };
    asked.then(
      (value) => (of.now = value),
      (error: unknown) => (of.now = error),
    );
    return of;
  };
  const suspected = (): boolean[] => heard.map(({ suspect }) => suspect === true);
  return { time, connection, calls, heard, host, outcome, suspected };
}

describe("a call whose host is lost", () => {
  test("is repeated once, as a suspect, and fails with the next host", async () => {
    const { time, calls, host, outcome, suspected } = make();
    host.comes();
    const call = outcome(calls.call(ID, CALL, HOW));
    await time.advance(SOON_MS);
    await host.lost();
    await time.advance(SOON_MS);
    host.comes();
    await time.advance(SOON_MS);
    expect(suspected()).toEqual([false, true]);
    await host.lost();
    await time.advance(RETURN_MS);
    expect(call.now).toBeInstanceOf(CallLost);
    expect(String(call.now)).toMatch("may have run");
    host.comes();
    await time.advance(HOW.deadlineMs);
    expect(suspected()).toHaveLength(2);
  });

  test("is repeated if its host had only stalled and returns, four times in all", async () => {
    const { time, calls, host, outcome, suspected } = make();
    const call = outcome(calls.call(ID, CALL, HOW));
    for (let stalls = 0; stalls < 4; stalls++) {
      expect(call.now).toBe(undefined);
      host.comes();
      await time.advance(SOON_MS);
      await host.lost();
      await time.advance(SOON_MS);
      host.returns();
      await time.advance(RETURN_MS);
    }
    expect(call.now).toBeInstanceOf(CallLost);
    expect(suspected()).toEqual([false, true, true, true]);
  });

  test("is answered by the next host if that one survives", async () => {
    const { time, calls, host, outcome } = make();
    host.comes();
    const call = outcome(calls.call(ID, CALL, HOW));
    await time.advance(SOON_MS);
    await host.lost();
    host.comes(() => ANSWER);
    await time.advance(SOON_MS);
    expect(call.now).toMatchObject({ reply: ANSWER });
  });

  test("counts across a caller's retries, even if none was pending when the lease ended", async () => {
    const { time, calls, host, outcome, suspected } = make();
    const call = outcome(askHost(calls, ID, CALL));
    for (let deaths = 0; deaths < 2; deaths++) {
      host.comes();
      await time.advance(SOON_MS);
      await host.dies();
      // The try has timed out; the next ones meet nobody.
      await time.advance(4 * ANSWER_TIMEOUT_MS);
      host.leasesEnd();
      await time.advance(SOON_MS);
    }
    await time.advance(RETURN_MS);
    expect(call.now).toBeInstanceOf(CallLost);
    host.comes();
    await time.advance(HOW.deadlineMs);
    expect(suspected()).toEqual([false, true]);
  });

  test("counts if it was only offered", async () => {
    const { time, calls, host, outcome, suspected } = make();
    host.comes();
    const tries = new CallTries();
    const body = new Uint8Array(0);
    const offer = outcome(calls.offer(ID, CALL, { body, deadlineMs: ANSWER_TIMEOUT_MS, tries }));
    await time.advance(2 * ANSWER_TIMEOUT_MS);
    expect([offer.now, tries.isOut]).toEqual([undefined, true]);
    await host.lost();
    host.comes(() => ANSWER);
    const call = outcome(calls.call(ID, CALL, { ...HOW, tries }));
    await time.advance(SOON_MS);
    expect(call.now).toMatchObject({ reply: ANSWER });
    expect([suspected(), tries.losses]).toEqual([[false, true], 1]);
  });

  test("does not count if the offer was already answered", async () => {
    const { time, calls, host, outcome, suspected } = make();
    host.comes(() => ANSWER);
    const tries = new CallTries();
    const body = new Uint8Array(0);
    const offer = outcome(calls.offer(ID, CALL, { body, deadlineMs: ANSWER_TIMEOUT_MS, tries }));
    await time.advance(SOON_MS);
    expect([offer.now, tries.isOut]).toEqual([ANSWER, false]);
    await host.lost();
    host.comes(() => ANSWER);
    await calls.call(ID, CALL, { ...HOW, tries });
    expect(suspected()).toEqual([false, false]);
  });

  test("is not repeated for a caller that has left", async () => {
    const { time, calls, host, outcome, heard } = make();
    host.comes();
    const caller = new AbortController();
    const beforeRepeat = (): void => caller.signal.throwIfAborted();
    const call = outcome(calls.call(ID, CALL, { ...HOW, beforeRepeat }));
    await time.advance(SOON_MS);
    caller.abort();
    await host.lost();
    host.comes();
    await time.advance(SOON_MS);
    expect(call.now).toBe(caller.signal.reason);
    expect(heard).toHaveLength(1);
  });

  test("is not repeated if its code may already have ended a host", async () => {
    const { time, calls, host, outcome, heard } = make({ any: true });
    host.comes();
    const call = outcome(calls.call(ID, CALL, HOW));
    await time.advance(SOON_MS);
    await host.lost();
    host.comes();
    await time.advance(RETURN_MS);
    expect(call.now).toBeInstanceOf(CallLost);
    expect(heard).toHaveLength(1);
  });
});

describe("a call whose host is alive", () => {
  const LATE: CallReply = { kind: "notHere", late: true };
  const cases: ReadonlyArray<readonly [string, Answer, true | undefined]> = [
    ["says that it is not here", { kind: "notHere" }, undefined],
    ["answers late", LATE, undefined],
    ["has given the shard up", undefined, true],
  ];
  test.each(cases)(
    "is repeated without becoming a suspect: it %s",
    async (_what, reply, released) => {
      const { time, calls, host, outcome, suspected } = make();
      const call = outcome(askHost(calls, ID, CALL));
      for (let moves = 0; moves < 4; moves++) {
        host.comes(() => reply);
        await time.advance(SOON_MS);
        await host.dies();
        host.leasesEnd(released);
      }
      host.comes(() => ANSWER);
      await time.advance(60 * SOON_MS);
      expect(call.now).toEqual(ANSWER);
      expect(suspected().filter(Boolean)).toEqual([]);
    },
  );

  test("is not a suspect after a broker outage longer than a lease", async () => {
    const { time, connection, calls, host, outcome, suspected } = make();
    host.comes();
    const call = outcome(calls.call(ID, CALL, HOW));
    await time.advance(SOON_MS);
    connection.disconnect();
    await time.advance(SOON_MS);
    host.leasesEnd();
    connection.reconnect();
    await host.dies();
    host.comes(() => ANSWER);
    await time.advance(SOON_MS);
    expect(call.now).toMatchObject({ reply: ANSWER });
    expect(suspected()).toEqual([false, false]);
  });

  test.each([true, false])(
    "is not said to have taken its whole time if the broker was lost (repeatable: %s)",
    async (repeatable) => {
      const { time, connection, calls, host, outcome } = make();
      host.comes();
      const call = outcome(calls.call(ID, CALL, { ...HOW, repeatable }));
      await time.advance(SOON_MS);
      connection.disconnect();
      await time.advance(repeatable ? HOW.deadlineMs : SOON_MS);
      expect(call.now).toBeInstanceOf(AgentUnreachable);
      expect(call.now).not.toBeInstanceOf(CallTimedOut);
      expect(String(call.now)).toContain("the connection to the broker was lost");
    },
  );

  test("waits for a host until its deadline, and is then known not to have run", async () => {
    const { time, calls, outcome } = make();
    const call = outcome(calls.call(ID, CALL, HOW));
    await time.advance(HOW.deadlineMs + SOON_MS);
    expect(call.now).toBeInstanceOf(AgentUnreachable);
    expect(call.now).not.toBeInstanceOf(CallLost);
  });
});

describe("on one agent, a call that may have ended its host before", () => {
  /** After it no suspect keeps another out. */
  const APART_MS = 10_000;
  const open = () => {
    const time = new VirtualTime();
    const agent = {
      id: ID, time, unlessDiscarded: () => Promise.resolve(),
      committer: { touch: () => undefined, flush: () => Promise.resolve() },
    } as object as ActiveAgent; // prettier-ignore
    return { time, suspects: new Suspects(agent, new Unbegun()) };
  };
  const input = { cause: { id: "input" } } as object as Turn;

  test("is refused while another runs, for ten seconds at most", async () => {
    const { time, suspects } = open();
    const over = suspects.admitCall()!;
    expect(suspects.admitCall()).toBe(undefined);
    over();
    over();
    expect(suspects.any).toBe(false);
    expect(suspects.admitCall()).toBeTypeOf("function");
    await time.advance(APART_MS - 1);
    expect(suspects.admitCall()).toBe(undefined);
    await time.advance(2);
    expect(suspects.admitCall()).toBeTypeOf("function");
  });

  test("is answered notHere when it is refused, and has not begun", async () => {
    const { suspects } = open();
    const agent = {
      suspects, discarded: false, unblocked: () => Promise.resolve(),
      image: { seq: 1, timeMs: 1, state: undefined }, committer: { idle: true, settled: true },
    } as object as ActiveAgent; // prettier-ignore
    const ask = async (call: AgentCall) =>
      (await handleCall(agent, call, new Uint8Array(0))).reply.kind;
    const over = suspects.admitCall()!;
    expect(await ask({ ...CALL, suspect: true })).toBe("notHere");
    expect(await ask(CALL)).toBe("state");
    over();
    expect(await ask({ ...CALL, suspect: true })).toBe("state");
    expect(suspects.any).toBe(false);
  });

  test.each(["announceInput", "announce"] as const)(
    "does not run beside an input or a job that began before it (%s)",
    async (announce) => {
      const { time, suspects } = open();
      const over = suspects.admitCall()!;
      let begun: (() => void) | undefined;
      void suspects[announce](input, 1).then((cleared) => (begun = cleared));
      await time.advance(SOON_MS);
      expect(begun).toBe(undefined);
      over();
      await time.advance(SOON_MS);
      expect(suspects.admitCall()).toBe(undefined);
      begun!();
      expect(suspects.admitCall()).toBeTypeOf("function");
    },
  );
});
