/** The end of a life from outside: one bare event after what there is, with no earlier epoch. */
import { describe, expect, it } from "vitest";
import type { AppendResult } from "../../core/journal/Journal.ts";
import { bareEnd, endLife, type EndLifeOptions } from "../../core/journal/endLife.ts";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { machineTime } from "../../services/node/MachineTime.ts";

const ID = agentId("A", "x");
const NONE = 0 as Sequence;

const eventOf = (epoch: number, more: Partial<JournalHead> = {}): Uint8Array =>
  encodeEvent({
    id: `event of epoch ${epoch}`,
    agent: ["A", "x"],
    kind: "turns",
    host: "h",
    epoch,
    time: 1,
    turns: [{ cause: { kind: "request", body: "a secret" }, state: { set: "a secret" } }],
    ...more,
  });

function setUp() {
  const journal = makeMemoryJournal(new MemoryBroker({ time: machineTime }).connect());
  const append = async (data: Uint8Array, expectedSeq: Sequence): Promise<Sequence> => {
    const signal = AbortSignal.timeout(1_000);
    const result = await journal.append(ID, data, { expectedSeq, signal });
    if (result._tag !== "Stored") throw new Error(result._tag);
    return result.seq;
  };
  const end = (epoch: number | undefined, more: Partial<EndLifeOptions> = {}) =>
    endLife(ID, {
      journal,
      time: machineTime,
      host: "me",
      epoch: epoch as Epoch | undefined,
      signal: AbortSignal.timeout(1_000),
      ...more,
    });
  return { journal, append, end };
}

describe("endLife", () => {
  it("appends one event that names nothing of the agent but its address", async () => {
    const { journal, append, end } = setUp();
    await append(eventOf(3), NONE);
    const seq = await end(5);
    const last = (await journal.last(ID))!;
    expect(last.seq).toBe(seq);
    const { head, delta } = decodeEvent(last.data);
    expect(head).toMatchObject({ agent: ["A", "x"], kind: "destroyed", epoch: 5, turns: [] });
    expect(Buffer.from(last.data).includes("secret")).toBe(false);
    expect(delta.length).toBe(0);
    expect(bareEnd(last)).toEqual(head);
  });

  it("uses the journal's epoch for an agent without an owner", async () => {
    const { journal, append, end } = setUp();
    await append(eventOf(3), NONE);
    await end(undefined);
    expect(decodeEvent((await journal.last(ID))!.data).head.epoch).toBe(3);
  });

  it("does nothing for an ended agent, or without a journal", async () => {
    const { append, end } = setUp();
    expect(await end(5)).toBe(0);
    await append(eventOf(3), NONE);
    const seq = await end(5);
    expect(await end(7)).toBe(seq);
  });

  it("does not count a destroy(), whose event names the turn", async () => {
    const { journal, append, end } = setUp();
    const turns = [{ cause: { kind: "rpc", type: "destroy" } }] as const;
    const destroyed = await append(eventOf(3, { kind: "destroyed", turns: [...turns] }), NONE);
    expect(bareEnd((await journal.last(ID))!)).toBeUndefined();
    expect(await end(5)).toBeGreaterThan(destroyed);
  });

  it("gives way to a later owner", async () => {
    const { journal, append, end } = setUp();
    const seq = await append(eventOf(9), NONE);
    await expect(end(5)).rejects.toMatchObject({ name: "AgentDiscarded" });
    expect((await journal.last(ID))!.seq).toBe(seq);
  });

  it("appends after an older owner's events, and gives up if they do not stop", async () => {
    const { journal, append, end } = setUp();
    await append(eventOf(3), NONE);
    const disturbed = (times: number): EndLifeOptions["journal"] => ({
      last: journal.last,
      append: async (...args): Promise<AppendResult> => {
        if (times-- > 0) await append(eventOf(5), (await journal.last(ID))!.seq);
        return journal.append(...args);
      },
    });
    expect(await end(5, { journal: disturbed(1) })).toBe((await journal.last(ID))!.seq);
    await append(eventOf(5), (await journal.last(ID))!.seq);
    const ended = end(5, { journal: disturbed(Number.POSITIVE_INFINITY) });
    await expect(ended).rejects.toMatchObject({ name: "AgentDiscarded" });
  });
});
