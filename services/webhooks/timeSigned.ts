/**
 * Providers that sign the time with the body: one row each, and the function that users write in a
 * route. A request that is older than the provider's tolerance, or further ahead, is refused.
 */
import type { Verifier } from "../../core/webhook/WebhookRoute.ts";
import { zoomHandshake } from "./handshakes.ts";
import { base, standardWebhooksScheme, TOLERANCE_SECONDS_DEFAULT } from "./providers.ts";
import type { SignatureScheme } from "./SignatureScheme.ts";
import { verifierOf, type TimestampedOptions } from "./verifierOf.ts";

/** https://docs.gitlab.com/user/project/integrations/webhooks/: Standard Webhooks, since its signing tokens. */
export const gitlabScheme: SignatureScheme = {
  ...standardWebhooksScheme,
  provider: "gitlab",
  deadlineMs: 9500, // GitLab gives up after 10 s, and switches a hook off after several failures.
  headers: [{ ...standardWebhooksScheme.headers[0]!, event: "x-gitlab-event" }],
  eventFields: ["object_kind"],
};

/** https://linear.app/developers/webhooks; as in its library, the time in the body is the one that counts. */
export const linearScheme: SignatureScheme = {
  ...base,
  provider: "linear",
  deadlineMs: 4500, // Linear gives up after 5 s.
  headers: [{ signature: "linear-signature", id: "linear-delivery", event: "linear-event" }],
  prefix: "",
  template: "{body}",
  timestamp: { field: "webhookTimestamp", unit: "ms", toleranceSeconds: 60 },
  eventFields: ["type"],
};

/** https://developer.zendesk.com/documentation/webhooks/verifying/ */
export const zendeskScheme: SignatureScheme = {
  ...base,
  provider: "zendesk",
  encoding: "base64",
  headers: [
    {
      signature: "x-zendesk-webhook-signature",
      timestamp: "x-zendesk-webhook-signature-timestamp",
      id: "x-zendesk-webhook-invocation-id",
    },
  ],
  prefix: "",
  template: "{timestamp}{body}",
  timestamp: { unit: "iso", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  eventFields: ["type"],
};

/** https://developers.zoom.us/docs/api/webhooks/#verify-webhook-events */
export const zoomScheme: SignatureScheme = {
  ...base,
  provider: "zoom",
  deadlineMs: 2500, // Zoom gives up after 3 s.
  headers: [{ signature: "x-zm-signature", timestamp: "x-zm-request-timestamp" }],
  prefix: "v0=",
  template: "v0:{timestamp}:{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  idFields: ["event", "event_ts", "payload.object.uuid", "payload.object.id"],
  eventFields: ["event"],
  handshake: zoomHandshake,
};

/** https://developer.calendly.com/api-docs/webhooks; an event's body is its own, so its hash is an id. */
export const calendlyScheme: SignatureScheme = {
  ...base,
  provider: "calendly",
  headers: [{ signature: "calendly-webhook-signature" }],
  separator: ",",
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  eventFields: ["event"],
  hashId: true,
};

/** https://workos.com/docs/events/data-syncing/webhooks; its library's tolerance. */
export const workosScheme: SignatureScheme = {
  ...base,
  provider: "workos",
  headers: [{ signature: "workos-signature" }],
  separator: ",",
  spaced: true,
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "ms", toleranceSeconds: 180 },
  idFields: ["id"],
  eventFields: ["event"],
};

/** https://elevenlabs.io/docs/product-guides/administration/webhooks; its library's tolerance. */
export const elevenlabsScheme: SignatureScheme = {
  ...base,
  provider: "elevenlabs",
  headers: [{ signature: "elevenlabs-signature" }],
  separator: ",",
  prefix: "v0=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: 30 * 60 },
  eventFields: ["type"],
  hashId: true,
};

/** https://docs.retellai.com/features/secure-webhook: the time comes behind the body. */
export const retellScheme: SignatureScheme = {
  ...base,
  provider: "retell",
  headers: [{ signature: "x-retell-signature" }],
  separator: ",",
  prefix: "d=",
  template: "{body}{timestamp}",
  timestamp: { item: "v=", unit: "ms", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  eventFields: ["event"],
  hashId: true,
};

/** GitLab, with a `whsec_…` signing token; for the old plain token see `gitlabToken`. Deadline 9.5 s. */
export const gitlab = (options: TimestampedOptions): Verifier => verifierOf(gitlabScheme, options);

/** Linear. The body and the time in it are signed, within 60 s; the delivery's id isn't. Deadline 4.5 s. */
export const linear = (options: TimestampedOptions): Verifier => verifierOf(linearScheme, options);

/** Zendesk. Body and time are signed, the invocation's id isn't: consider `replayGuard`. */
export const zendesk = (options: TimestampedOptions): Verifier =>
  verifierOf(zendeskScheme, options);

/** Zoom, with the app's secret token. Its URL validation is answered here. Deadline 2.5 s. */
export const zoom = (options: TimestampedOptions): Verifier => verifierOf(zoomScheme, options);

/** Calendly, with the subscription's signing key. Without an id of its own: by the body's hash. */
export const calendly = (options: TimestampedOptions): Verifier =>
  verifierOf(calendlyScheme, options);

/** WorkOS. The event's id is in the signed body; the time within 180 s. */
export const workos = (options: TimestampedOptions): Verifier => verifierOf(workosScheme, options);

/** ElevenLabs, the time within 30 min. Without an id of its own: by the body's hash. */
export const elevenlabs = (options: TimestampedOptions): Verifier =>
  verifierOf(elevenlabsScheme, options);

/** Retell, with the API key. Without an id of its own: by the body's hash. */
export const retell = (options: TimestampedOptions): Verifier => verifierOf(retellScheme, options);
