/**
 * The agent's address in the subject of a stored message. A subject that no release writes can have
 * been published by anything with a login: those that read many messages skip it, since one of them
 * must not end the reading of all others.
 */
import { InvalidAddress, type AgentId } from "../../schemas/Address.ts";
import type { NatsShape } from "./client/Nats.ts";

/** Returns undefined for a subject without a readable address, which is logged. */
export function readAddress(
  { subjects, connection }: Pick<NatsShape, "subjects" | "connection">,
  subject: string,
): AgentId | undefined {
  try {
    return subjects.addressOf(subject);
  } catch (error) {
    if (!(error instanceof InvalidAddress)) throw error;
    connection.log("warn", "a stored message without a readable address is skipped", {
      subject,
      error: error.message,
    });
    return undefined;
  }
}
