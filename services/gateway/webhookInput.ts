/**
 * Turns a verified webhook into an input: finds its agent and creates the head of its envelope.
 * Pure. `WebhookEndpoint` calls it for a request with one event, `storeBatch` for each event of a
 * batch.
 */
import { answerOfEntity } from "../../core/webhook/answers.ts";
import type {
  PlainAnswer,
  WebhookRequest,
  WebhookRoute,
  WebhookTarget,
} from "../../core/webhook/WebhookRoute.ts";
import { InvalidAddress } from "../../schemas/Address.ts";
import { topLevelId, type TopLevelId } from "../../schemas/AgentPath.ts";
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";

export interface FoundAgent {
  readonly _tag: "Agent";
  readonly id: TopLevelId;
  /** The original value from which `slug` derived the agent's name. Undefined without `slug`. */
  readonly entity: string | undefined;
}
type AgentOf = FoundAgent | { readonly _tag: "Refused"; readonly answer: PlainAnswer };

/** The agent that the target's entity source names, or the answer that says why there is none. */
export function agentOf(route: WebhookTarget, request: WebhookRequest): AgentOf {
  const entity = route.entity.resolve(request);
  const answer = answerOfEntity(entity);
  if (entity._tag !== "Entity" || answer !== undefined)
    return { _tag: "Refused", answer: answer ?? invalid("Invalid entity") };
  try {
    return { _tag: "Agent", id: topLevelId(route.agent, entity.name), entity: entity.slugged };
  } catch (error) {
    if (error instanceof InvalidAddress) return { _tag: "Refused", answer: invalid(error.message) };
    throw error;
  }
}

const invalid = (body: string): PlainAnswer => ({
  status: 400,
  headers: { "content-type": "text/plain;charset=UTF-8" },
  body,
});

interface InputParts {
  readonly route: Pick<WebhookRoute, "path" | "verifier" | "redaction" | "redactedFields">;
  readonly request: WebhookRequest;
  /** The headers to store, without credentials (`headerRecord`). */
  readonly headers: Readonly<Record<string, string>>;
  /** As in `FoundAgent`. */
  readonly entity: string | undefined;
  /** The provider's id of the event. Undefined: `id` creates a unique one. */
  readonly dedupId: string | undefined;
  readonly id: () => string;
  /** The provider's id of the delivery, which also identifies a repetition. */
  readonly replayId?: string | undefined;
  readonly eventType?: string | undefined;
  /** Id of the delivery, or of its part. */
  readonly delivery: string;
  /** The request's span. Undefined: it is not traced. */
  readonly traceparent?: string | undefined;
  /** Where the gateway waits for the agent's answer, if it does. */
  readonly reply?: InboxHead["reply"];
}

/** Creates the head of the envelope in which the input is stored. URL and headers are redacted. */
export function webhookHead({ route, request, headers, ...parts }: InputParts): InboxHead {
  const { provider, unsigned } = route.verifier;
  return {
    key: parts.dedupId === undefined ? `gen:${parts.id()}` : `${provider}:${parts.dedupId}`,
    kind: "webhook",
    time: request.nowMs,
    provider,
    route: route.path,
    method: request.method,
    url: route.redaction.url(request.url),
    headers,
    ...(unsigned === undefined ? {} : { verified: false }),
    ...(parts.replayId === undefined ? {} : { alsoKeys: [`${provider}:replay:${parts.replayId}`] }),
    ...(parts.eventType === undefined ? {} : { type: parts.eventType }),
    ...(parts.entity === undefined ? {} : { entity: parts.entity }),
    delivery: parts.delivery,
    ...(route.redactedFields === undefined ? {} : { redact: route.redactedFields }),
    ...(parts.traceparent === undefined ? {} : { traceparent: parts.traceparent }),
    ...(parts.reply === undefined ? {} : { reply: parts.reply }),
  };
}
