/**
 * Runs one durable input by its kind and returns the answer. Lanes run jobs (queue items,
 * schedules).
 */
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import { redriveJob, type RedriveAgent } from "./redriveJob.ts";
import { runMail, type MailAgent } from "./runMail.ts";
import { runWebhook, type WebhookAgent } from "./runWebhook.ts";
import { runWorkflowSignal, type SignalReceiver } from "./runWorkflowSignal.ts";
import type { Turn } from "../turn/Turn.ts";

/** The answer has no caller. */
const NO_CONTENT: ResponseParts = { status: 204, headers: [], body: "" };

/** The agent that inputs of every kind run on. */
export type EnvelopeAgent = MailAgent & RedriveAgent & SignalReceiver & WebhookAgent;

export function runEnvelope(
  agent: EnvelopeAgent,
  turn: Turn,
  envelope: InboxEnvelope,
): Promise<ResponseParts> | ResponseParts {
  const { head, body } = envelope;
  if (head.kind === "mail") return runMail(agent, turn, head, body).then(() => NO_CONTENT);
  if (head.kind === "workflow") return runWorkflowSignal(agent, body).then(() => NO_CONTENT);
  if (head.kind !== "redrive") return runWebhook(agent, turn, head, body);
  redriveJob(agent, envelope);
  return NO_CONTENT;
}
