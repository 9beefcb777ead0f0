/** The slot of an isolated agent, with a process that the test plays: its inputs. */
import { expect, test } from "vitest";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import type { IsolatedAsk, IsolatedReply, Isolation } from "../../core/input/Isolation.ts";
import type { SlotContext } from "../../services/host/AgentSlot.ts";
import { IsolatedSlot } from "../../services/host/IsolatedSlot.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const ID = agentId("Board", "one");
const NO_BODY = new Uint8Array();

/** A process that answers as the test says. */
class Alone {
  readonly time = new VirtualTime();
  /** What the process is asked, in order: `deliver 1`, `erase`. */
  readonly asked: string[] = [];
  /** Acks and naks of inputs, in order: `ack 1`, `nak 1`. */
  readonly settled: string[] = [];
  readonly slot: IsolatedSlot;
  private open: Array<{ readonly name: string; answer: (reply: IsolatedReply) => void }> = [];

  constructor() {
    const isolation = {
      ask: (_id, _owner, ask) => {
        const name = nameOf(ask);
        this.asked.push(name);
        return new Promise<IsolatedReply>((answer) => this.open.push({ name, answer }));
      },
      lost: () => undefined,
    } as Partial<Isolation> as Isolation;
    const context = {
      epoch: 1 as Epoch,
      signal: new AbortController().signal,
      services: {
        config: { hostId: "host" },
        time: this.time,
      },
    } as unknown as SlotContext;
    this.slot = new IsolatedSlot(ID, context, isolation);
  }

  async deliver(...seqs: ReadonlyArray<number>): Promise<void> {
    for (const seq of seqs)
      this.slot.deliver({
        id: ID,
        seq: seq as Sequence,
        deliveries: 1,
        ack: () => void this.settled.push(`ack ${seq}`),
        nak: () => void this.settled.push(`nak ${seq}`),
      });
    await this.time.settle();
  }

  /** The process answers what it was asked: `deliver` all inputs, `erase` an erasure. */
  async answer(what: "deliver" | "erase", reply: IsolatedReply): Promise<void> {
    const { open } = this;
    this.open = open.filter(({ name }) => !name.startsWith(what));
    for (const { name, answer } of open) if (name.startsWith(what)) answer(reply);
    await this.time.settle();
  }
}

function nameOf(ask: IsolatedAsk): string {
  if (ask.kind === "deliver") return `deliver ${ask.seq}`;
  if (ask.kind !== "call") return ask.kind;
  return decodeMessage<SlotCall>(Buffer.from(ask.data, "base64")).head.kind;
}

const SEQS = Array.from({ length: 20 }, (_, n) => n + 1);
const ERASE: SlotCall = { kind: "erase" };
const RESULT: CallReply = { kind: "result", value: 9 };
const ERASED: IsolatedReply = {
  kind: "answered",
  data: Buffer.from(encodeMessage(RESULT, NO_BODY)).toString("base64"),
};

test("an erasure passes none of the inputs that wait, and those that arrive meanwhile afterwards", async () => {
  const alone = new Alone();
  await alone.deliver(...SEQS);
  expect(alone.asked).toEqual(SEQS.slice(0, 16).map((seq) => `deliver ${seq}`));
  alone.asked.length = 0;

  const erasing = alone.slot.call(ERASE, NO_BODY);
  await alone.deliver(21);
  expect(alone.asked).toEqual(["erase"]);
  await alone.answer("deliver", { kind: "acked" });
  expect(alone.asked).toEqual(["erase"]);
  await alone.answer("erase", ERASED);
  expect(await erasing).toMatchObject({ reply: { kind: "result", value: 9 } });
  await alone.time.settle();
  expect(alone.settled).toEqual(SEQS.map((seq) => `ack ${seq}`));
  expect(alone.asked).toEqual(["erase", "deliver 21"]);
});

test("an erasure that its process did not answer drops no input", async () => {
  const alone = new Alone();
  await alone.deliver(...SEQS);
  const erasing = alone.slot.call(ERASE, NO_BODY).catch((error: unknown) => error);
  await alone.time.settle();
  alone.asked.length = 0;
  await alone.answer("erase", { kind: "failed", transient: true, message: "it is maintained" });
  expect(await erasing).toBeInstanceOf(AgentDiscarded);
  expect(alone.settled).toEqual([]);
  await alone.answer("deliver", { kind: "acked" });
  expect(alone.asked).toEqual(SEQS.slice(16).map((seq) => `deliver ${seq}`));
});

test("inputs of a process that ends at once are passed again after a pause", async () => {
  const alone = new Alone();
  await alone.deliver(1, 2);
  for (let n = 0; n < 3; n++) {
    await alone.answer("deliver", { kind: "ended" });
    expect(alone.asked.splice(0)).toEqual(["deliver 1", "deliver 2"]);
    await alone.time.settle();
    expect(alone.asked).toEqual([]);
    await alone.time.advance(1_000);
  }
});
