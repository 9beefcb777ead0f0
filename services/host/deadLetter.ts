/**
 * Stores an input that exhausted its attempts as a dead letter. Rejects with `BrokerUnavailable`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import type { HostServices } from "./HostServices.ts";

export async function deadLetter(
  services: HostServices,
  id: AgentId,
  letter: {
    /** Inbox sequence; 0 for a job, which is stored in the agent's own database. */
    readonly seq: number;
    readonly reason: string;
    /** As `DeadLetterHead`. */
    readonly undone?: boolean;
    /** An `InboxEnvelope` frame. */
    readonly input: Uint8Array;
  },
): Promise<void> {
  const { config, time, deadLetters, metrics } = services;
  const head = {
    agent: [id.class, id.name] as const,
    seq: letter.seq,
    reason: letter.reason,
    host: config.hostId,
    time: time.nowMs(),
    ...(letter.undone === true ? { undone: true as const } : {}),
  };
  await deadLetters.put(id, encodeDeadLetter(head, letter.input));
  metrics.deadLetters();
}
