/** Stored inputs whose bodies are lost: each becomes a dead letter, and the next one runs. */
import { expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { CorruptFrame, encodeFrame } from "../../schemas/Frame.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { CommitRig, ID } from "../faults/CommitRig.ts";

const LOST = new CorruptFrame({ message: "the blob of input 1 is gone" });
/** What its consumer delivers in the place of the body. */
const CLAIM = encodeFrame({ claim: { blob: "inbox/A/a/gone", bytes: 3 } });

/** An agent whose first input has lost its body. The second one has not. */
async function rigOf() {
  class Echo extends Agent<unknown> {
    override async onRequest(): Promise<Response> {
      return new Response("done");
    }
  }
  const rig = await CommitRig.make(Echo as AgentClassType);
  const { read } = rig;
  rig.read = (seq) => (seq === 1 ? Promise.reject(LOST) : read(seq));
  const first = {
    id: ID,
    seq: 1 as Sequence,
    deliveries: 1,
    ack: () => void rig.left.push("ack 1"),
    nak: () => void rig.left.push("nak 1"),
  };
  return { rig, first };
}

test.each([
  ["with the bytes that its consumer found", CLAIM, "stored body is lost"],
  ["by number", undefined, LOST.message],
])("an input that is delivered %s", async (_how, data, reason) => {
  const { rig, first } = await rigOf();
  rig.slot.deliver(data === undefined ? first : { ...first, data });
  await rig.settled();
  await rig.deliver(2);
  expect(rig.left).toEqual(["buried", "ack 1", "ack 2", "answer 2 200"]);
  const [letter] = rig.broker.deadLetters.all();
  const { head, input } = decodeDeadLetter(letter!.data);
  expect(head.reason).toContain(reason);
  expect(input).toEqual(data ?? new Uint8Array());
});

test("one whose attempts are used up is a dead letter without its body", async () => {
  class Failing extends Agent<unknown> {
    static override options = { retry: { maxAttempts: 1 } };
    override async onRequest(): Promise<Response> {
      throw new Error("it fails");
    }
  }
  const rig = await CommitRig.make(Failing as AgentClassType);
  rig.read = () => Promise.reject(LOST);
  await rig.deliver(1);
  await rig.settled();
  expect(rig.left).toEqual(["buried", "ack 1", "answer 1 500"]);
});
