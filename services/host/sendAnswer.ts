/**
 * Sends the answer to a durable input to the gateway that waits for it; a large body goes through
 * the blob store.
 */
import { ANSWER_BLOBS, type InputAnswer } from "../../schemas/bus/CallReply.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import type { HostServices } from "./HostServices.ts";

const encoder = new TextEncoder();

export function sendAnswer(
  services: HostServices,
  subject: string,
  answer: InputAnswer,
  body: Uint8Array | string,
): void {
  const { bus, blobs, time, log, config } = services;
  // The envelope names the subject, and logins that only store inputs write envelopes.
  if (!config.subjects.isGatewayReply(subject))
    return log.warn("an input's answer is not sent: no gateway awaits it", { subject });
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const data = encodeMessage(answer, bytes);
  if (data.length <= bus.payloadBytesMax) return bus.publish(subject, data);
  const blob = `${ANSWER_BLOBS}${time.id()}`;
  blobs
    .put(blob, bytes)
    // Throws where the headers alone are too large.
    .then(() => bus.publish(subject, encodeMessage({ ...answer, blob })))
    // The input is done and acked. Without an answer the gateway responds 202 at its deadline.
    .catch((error: unknown) => log.warn("an answer could not be sent", { error: String(error) }));
}
