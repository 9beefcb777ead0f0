/**
 * Stores an input that exhausted its attempts as a dead letter, without the fields that its route
 * or class hides. Tries again for some seconds while the broker does not answer: if the letter is
 * not stored, the agent leaves memory, and all its other turns are interrupted. Rejects with
 * `BrokerUnavailable`.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { GivenUp } from "../../core/dead/DeadLetters.ts";
import { sleep } from "../../core/time/sleep.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { ifReadable } from "../../schemas/Frame.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { hideFields } from "../../core/redaction/FieldRedaction.ts";
import type { HostServices } from "./HostServices.ts";

/** Together with the pauses, about the time of an election after a server's death. */
const TRIES_MAX = 5;
/** Doubled each time. */
const PAUSE_MS = 250;

interface Letter extends GivenUp {
  /** Inbox sequence; 0 for a job, which is stored in the agent's own database. */
  readonly seq: number;
  /** Reads an `InboxEnvelope` frame. */
  readonly input: () => Promise<Uint8Array>;
}

type Services = Pick<HostServices, "config" | "time" | "deadLetters" | "metrics" | "module">;

export async function deadLetter(services: Services, id: AgentId, letter: Letter): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await put(services, id, letter);
    } catch (error) {
      if (!(error instanceof BrokerUnavailable) || tries === TRIES_MAX) throw error;
    }
    await sleep(services.time, PAUSE_MS * 2 ** (tries - 1));
  }
}

async function put(services: Services, id: AgentId, letter: Letter): Promise<void> {
  const { config, time, deadLetters, metrics } = services;
  const input = await letter.input();
  const head = {
    agent: [id.class, id.name] as const,
    seq: letter.seq,
    reason: letter.reason,
    host: config.hostId,
    time: time.nowMs(),
    ...(letter.undone ? { undone: true as const } : {}),
  };
  const { redact } = services.module().agents.get(id.class)?.options ?? {};
  await deadLetters.put(id, encodeDeadLetter(head, withoutFields(input, redact)), letter.death);
  metrics.ofClass(id.class).deadLetter();
}

/** An envelope as it is kept. One that can't be read stays as it is. */
function withoutFields(input: Uint8Array, redact: ReadonlyArray<string> | undefined): Uint8Array {
  const envelope = ifReadable(() => decodeEnvelope(input));
  if (envelope === undefined) return input;
  const { body } = hideFields(envelope, redact);
  return body === envelope.body ? input : encodeEnvelope(envelope.head, body);
}
