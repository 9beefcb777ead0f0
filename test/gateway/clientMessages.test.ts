/** `ClientMessages` against a host driven by hand. The host's half: `system/socketOrder`. */
import { describe, expect, test } from "vitest";
import { AgentUnreachable, CallLost } from "../../core/call/AgentUnreachable.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import type { CallTries } from "../../core/call/CallTries.ts";
import { PeerBytes } from "../../core/http/PeerBytes.ts";
import { agentId } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import {
  ClientMessages,
  type ClientSocket,
  type CloseFrame,
} from "../../services/gateway/ClientMessages.ts";
import { FRAMES_PER_SECOND, socketRate } from "../../services/gateway/SocketRates.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { pollUntil } from "../kit/poll.ts";

interface Sent {
  readonly call: Call;
  /** Sent without a wait for the one before. */
  readonly ahead: boolean;
  readonly answer: (reply: CallReply | undefined) => void;
  /** Its host is lost with it: the next one is to be asked, or it fails. */
  readonly lose: () => void;
}

interface How {
  readonly deadlineMs: number;
  readonly tries?: CallTries;
  readonly beforeRepeat?: () => void;
}

const INFO: SocketInfo = { gateway: "g", sid: "s", id: "c", url: "http://x/", headers: [] };
/** A client may wait so long for one message that was lost. */
const SECONDS_FEW = 5;
/** What the fake bus takes without the blob store. */
const FITS_BYTES = 600_000;

function make(waiting = new PeerBytes(Infinity)) {
  const sent: Sent[] = [];
  const time = new VirtualTime();
  const state = {
    open: true,
    tooMany: false,
    gone: undefined as CloseFrame | undefined,
    failure: undefined as unknown,
    broken: undefined as unknown,
  };
  const send = (call: Call, { deadlineMs, tries, beforeRepeat }: How, ahead: boolean) =>
    new Promise<CallReply | undefined>((resolve, reject) => {
      tries?.sent(0);
      const lose = (): void => {
        tries?.count(1, `host ${tries.losses}`);
        if (tries?.losses === 2) return reject(new CallLost({ message: "lost" }));
        try {
          beforeRepeat?.();
          tries?.sent(0);
        } catch (error) {
          reject(error as Error);
        }
      };
      const answer = (reply: CallReply | undefined): void => {
        if (reply !== undefined) tries?.answered();
        resolve(reply);
      };
      sent.push({ call, ahead, answer, lose });
      const silent = new AgentUnreachable({ message: "no answer" });
      time.after(deadlineMs, () => (ahead ? resolve(undefined) : reject(silent)));
    });
  const calls = {
    fits: (body: Uint8Array) => body.length <= FITS_BYTES,
    offer: (_id: unknown, call: Call, how: How) => send(call, how, true),
    call: async (_id: unknown, call: Call, how: How) => ({ reply: await send(call, how, false) }),
  } as unknown as CallClient;
  const socket: ClientSocket = {
    id: agentId("A", "a"),
    info: INFO,
    get gone() {
      return state.gone;
    },
  };
  const messages: ClientMessages<ClientSocket> = new ClientMessages(socket, {
    calls,
    gatewayId: "g",
    waiting,
    onTooMany: () => (state.tooMany = true),
    has: () => state.open,
    infoOf: () => ({ ...INFO, next: messages.next }),
    onCloseDelivered: () => (state.open = false),
    onUnreachable: (_socket, error) => {
      state.open = false;
      state.failure = error;
    },
    onPoisonMessage: (_socket, error) => (state.broken = error),
  });
  const push = (count: number, bytes = 1): boolean[] =>
    Array.from({ length: count }, () => messages.push(new Uint8Array(bytes), false));
  const seen = (): ReadonlyArray<string> => sent.map(describeSent);
  const until = (...wanted: string[]) =>
    pollUntil(wanted.join(", "), () =>
      JSON.stringify(seen()) === JSON.stringify(wanted) ? true : { done: false, saw: seen() },
    );
  /** Answers everything that was sent so far and forgets it. */
  const answer = (reply: (call: Call) => CallReply | undefined): void => {
    for (const one of sent.splice(0)) one.answer(reply(one.call));
  };
  /** The first message is taken by an agent that keeps the order. */
  const begin = async (): Promise<void> => {
    push(1);
    await until("alone 1");
    answer(taken);
    await settled();
  };
  return { sent, time, state, messages, push, seen, until, answer, begin };
}

const taken = (call: Call): CallReply =>
  call.kind === "message" ? { kind: "taken", next: call.number! + 1 } : { kind: "taken" };

function describeSent({ call, ahead }: Sent): string {
  if (call.kind === "message") return `${ahead ? "ahead" : "alone"} ${call.number}`;
  return call.kind === "resume" ? `resume ${call.socket.next}` : call.kind;
}

/** Everything that follows from what was said is done. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

const aheadOf = (from: number, to: number): string[] =>
  Array.from({ length: to - from + 1 }, (_, n) => `ahead ${from + n}`);

describe("a client's messages", () => {
  test("wait until the first is accepted, and are then sent ahead", async () => {
    const { push, until, answer } = make();
    push(3);
    await until("alone 1");
    answer(taken);
    await until("ahead 2", "ahead 3");
    push(1);
    await until("ahead 2", "ahead 3", "ahead 4");
  });

  test("are sent one at a time to an older host, whose confirmations have no number", async () => {
    const { push, until, answer } = make();
    push(3);
    for (const n of [1, 2, 3]) {
      await until(`alone ${n}`);
      answer(() => ({ kind: "taken" }));
    }
    await until();
  });

  test("end with the first that fails, ahead or alone: none is repeated", async () => {
    const ahead = make();
    await ahead.begin();
    ahead.push(3);
    await ahead.until(...aheadOf(2, 4));
    ahead.answer(() => ({ kind: "error", name: "AgentAborted", message: "had enough" }));
    await settled();
    expect(ahead.state).toMatchObject({ open: false, failure: { message: "had enough" } });
    await ahead.until();
    const alone = make();
    alone.push(2);
    await alone.until("alone 1");
    alone.answer(() => ({ kind: "error", name: "AgentAborted", message: "had enough" }));
    await settled();
    expect(alone.state).toMatchObject({ open: false, failure: { message: "had enough" } });
    await alone.until();
  });

  test("are sent at most 64, or about 1 MiB, ahead", async () => {
    const many = make();
    await many.begin();
    many.push(100);
    await many.until(...aheadOf(2, 65));
    many.answer(taken);
    await many.until(...aheadOf(66, 101));
    const large = make();
    await large.begin();
    large.push(5, FITS_BYTES);
    await large.until("ahead 2", "ahead 3");
  });

  test("are refused when too many wait", async () => {
    // What a client may send at once, since it may have queued it without a connection.
    expect(make().push(socketRate(FRAMES_PER_SECOND).burst)).not.toContain(false);
    // 16 MiB of memory: of messages of few bytes half a kilobyte each.
    expect(make().push(40_000).filter(Boolean).length).toBeLessThan(32_768);
  });

  test("are refused when their total is too large, and accepted again when some are sent", async () => {
    const { push, until, answer } = make();
    const MIB = 1024 * 1024;
    expect(push(20, MIB)).toEqual(Array.from({ length: 20 }, (_, n) => n < 15));
    for (let n = 1; n <= 15; n++) {
      // Past what the bus takes: each goes alone, and makes room for one.
      await until(`alone ${n}`);
      answer(taken);
      await settled();
    }
    expect(push(20, MIB)).toEqual(Array.from({ length: 20 }, (_, n) => n < 15));
  });

  test("of all sockets share a total: past it, the socket with the most is closed, and its own are dropped", async () => {
    const MIB = 1024 * 1024;
    const waiting = new PeerBytes(10 * MIB);
    const [few, most] = [make(waiting), make(waiting)];
    few.push(2, MIB);
    most.push(9, MIB);
    expect([few.state.tooMany, most.state.tooMany]).toEqual([false, true]);
    await most.until("alone 1");
    most.answer(taken);
    most.push(1);
    most.state.gone = { code: 1013, reason: "", wasClean: true };
    most.messages.pump();
    await most.until("close");
    for (const n of [1, 2]) {
      await few.until(`alone ${n}`);
      few.answer(taken);
    }
  });

  test("are not repeated until each sent one is answered; then the first is sent alone", async () => {
    const { begin, push, sent, until, answer } = make();
    await begin();
    push(4);
    await until(...aheadOf(2, 5));
    const [second, third, ...rest] = sent.splice(0);
    second!.answer(undefined);
    third!.answer({ kind: "notHere" });
    await settled();
    push(1);
    await settled();
    expect(sent).toEqual([]);
    for (const one of rest) one.answer({ kind: "unknownSocket" });
    await until("alone 2");
    answer(() => ({ kind: "unknownSocket" }));
    await until("resume 2");
    answer(taken);
    await until("alone 2");
    answer(taken);
    await until(...aheadOf(3, 6));
  });

  test("that are known to be accepted are never sent again, even if earlier answers are missing", async () => {
    const { begin, push, sent, until } = make();
    await begin();
    push(4);
    await until(...aheadOf(2, 5));
    const out = sent.splice(0);
    out[0]!.answer(undefined);
    out[2]!.answer({ kind: "taken", next: 5 });
    out[1]!.answer(undefined);
    out[3]!.answer(undefined);
    await until("alone 5");
  });

  test("without an answer are asked about again within seconds, even if their host is alive", async () => {
    const { begin, push, sent, time, until, answer } = make();
    await begin();
    push(3);
    await until(...aheadOf(2, 4));
    const [, ...later] = sent.splice(0);
    // The second is lost on its way, so those after it are not taken.
    for (const one of later) one.answer({ kind: "unknownSocket" });
    await time.advance(SECONDS_FEW * 1000);
    await until("alone 2");
    // So is what is asked alone, or its answer.
    await time.advance(2 * SECONDS_FEW * 1000);
    await until("alone 2", "alone 2");
    answer(taken);
    await until(...aheadOf(3, 4));
  });

  test("without an answer for two minutes close their socket", async () => {
    const { push, state, sent, time } = make();
    push(1);
    await time.advance(119_000);
    expect(state.open).toBe(true);
    await time.advance(2_000);
    expect(state).toMatchObject({ open: false, failure: { message: "no answer" } });
    expect(new Set(sent.map(describeSent))).toEqual(new Set(["alone 1"]));
    expect(sent.length).toBeLessThan(10);
  });

  test("of which one ends two hosts close their socket: no more are sent, and the close is reported", async () => {
    const { push, sent, state, messages, until, answer } = make();
    push(3);
    await until("alone 1");
    const [first] = sent;
    first!.lose();
    await settled();
    expect(state.broken).toBe(undefined);
    first!.lose();
    await settled();
    expect(state).toMatchObject({ open: true, broken: { message: "lost" } });
    sent.length = 0;
    expect(push(1)).toEqual([true]);
    state.gone = { code: 1011, reason: "", wasClean: true };
    messages.pump();
    await until("close");
    answer(taken);
    await settled();
    expect(state).toMatchObject({ open: false, failure: undefined });
  });

  test("of which one was sent to a lost host are dropped with all later ones once their client has left, and the close is reported", async () => {
    const { begin, push, sent, state, until, answer } = make();
    await begin();
    push(1);
    push(2, FITS_BYTES + 1);
    await until("ahead 2");
    // Nothing was heard of it, and then its client and its host are gone.
    answer(() => undefined);
    await until("alone 2");
    state.gone = { code: 1000, reason: "", wasClean: true };
    sent.splice(0)[0]!.lose();
    // Not 3: the second may not have run.
    await until("close");
    answer(taken);
    await settled();
    expect(state).toMatchObject({ open: false, failure: undefined, broken: undefined });
  });

  test("that a host survived are all sent, even if their client has left", async () => {
    const { begin, push, sent, state, messages, until, answer } = make();
    await begin();
    push(2);
    await until(...aheadOf(2, 3));
    // Both were lost on their way; no host was.
    for (const one of sent.splice(0)) one.answer(undefined);
    state.gone = { code: 1000, reason: "", wasClean: true };
    messages.pump();
    await until("alone 2");
    answer(taken);
    await until("alone 3");
    answer(taken);
    await until("close");
  });

  test("that were sent without an answer are each repeated alone", async () => {
    const { begin, push, sent, until, answer } = make();
    await begin();
    push(3);
    await until(...aheadOf(2, 4));
    for (const one of sent.splice(0)) one.answer(undefined);
    for (const n of [2, 3, 4]) {
      await until(`alone ${n}`);
      answer(taken);
    }
    await until();
  });

  test("past the bus's payload limit are sent alone, with nothing ahead of them", async () => {
    const { begin, push, until, answer } = make();
    await begin();
    push(1);
    push(1, FITS_BYTES + 1);
    push(1);
    await until("ahead 2");
    answer(taken);
    await until("alone 3");
    answer(taken);
    await until("ahead 4");
  });

  test("all precede the close, which is reported once", async () => {
    const { begin, push, state, messages, until, answer } = make();
    await begin();
    push(2);
    state.gone = { code: 1000, reason: "", wasClean: true };
    messages.pump();
    await until("ahead 2", "ahead 3");
    answer(taken);
    await until("close");
    answer(taken);
    await settled();
    expect(state).toMatchObject({ open: false, failure: undefined });
    messages.pump();
    await until();
  });

  test("of a socket that its host has closed are dropped", async () => {
    const { begin, push, state, until, answer } = make();
    await begin();
    push(2);
    await until("ahead 2", "ahead 3");
    state.open = false;
    answer(() => undefined);
    await settled();
    await until();
  });
});
