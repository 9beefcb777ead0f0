/**
 * Providers that sign a time together with the body: one row each. A request whose time is further
 * from now than the provider's tolerance, in either direction, is refused; `toleranceSeconds` of
 * the options changes the tolerance.
 *
 * `providers.ts` says how to add a row. All exports are public.
 */
import {
  SCHEME_DEFAULTS,
  TOLERANCE_SECONDS_DEFAULT,
  type SignatureScheme,
} from "../verifier/SignatureScheme.ts";
import type { TimestampedOptions } from "../verifier/verifierOf.ts";
import { slackHandshake, zoomHandshake } from "./handshakes.ts";
import { provider } from "./Provider.ts";

/**
 * Stripe, with the `whsec_…` secret of the endpoint. The body, with the event's id in it, and the
 * time are signed; the time may be up to 300 s from now. Deadline 5 s. The older scheme's `v0=` in
 * the header is ignored. https://docs.stripe.com/webhooks/signature
 */
export const stripe = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "stripe",
  headers: [{ signature: "stripe-signature" }],
  separator: ",",
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  idFields: ["id"],
  eventFields: ["type"],
});

/**
 * Slack, with the app's signing secret: events, commands and interactions. The gateway answers its
 * URL challenge and its certificate check once their signature is verified. The time may be up to
 * 300 s from now. Deadline 2.5 s.
 * https://docs.slack.dev/authentication/verifying-requests-from-slack
 */
export const slack = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "slack",
  deadlineMs: 2500, // Slack times out after 3 s.
  headers: [{ signature: "x-slack-signature", timestamp: "x-slack-request-timestamp" }],
  prefix: "v0=",
  template: "v0:{timestamp}:{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  idFields: ["event_id"],
  eventFields: ["event.type", "type", "command"],
  retryHeader: "x-slack-retry-num",
  handshake: slackHandshake,
});

const standardWebhooksScheme: SignatureScheme = {
  ...SCHEME_DEFAULTS,
  provider: "standard-webhooks",
  encoding: "base64",
  headers: [
    { signature: "webhook-signature", timestamp: "webhook-timestamp", id: "webhook-id" },
    { signature: "svix-signature", timestamp: "svix-timestamp", id: "svix-id" },
  ],
  separator: " ",
  prefix: "v1,",
  asymmetric: { algorithm: "ed25519", prefix: "v1a," },
  template: "{id}.{timestamp}.{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  secretFormat: "whsec",
  eventFields: ["type"],
};

/**
 * Any sender that follows Standard Webhooks, with its `whsec_…` secret or its `whpk_…` public key
 * (Ed25519, `v1a`). Id, time and body are signed; the time may be up to 300 s from now. Deadline 5
 * s. https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export const standardWebhooks = provider<TimestampedOptions>(standardWebhooksScheme);

/** Senders that use Svix. As `standardWebhooks`, but Svix's own header names take precedence. */
export const svix = provider<TimestampedOptions>({
  ...standardWebhooksScheme,
  provider: "svix",
  headers: standardWebhooksScheme.headers.toReversed(),
});

/**
 * GitLab, with a `whsec_…` signing token, by Standard Webhooks; for the older plain token see
 * `gitlabToken`. The time may be up to 300 s from now. Deadline 9.5 s.
 * https://docs.gitlab.com/user/project/integrations/webhooks/
 */
export const gitlab = provider<TimestampedOptions>({
  ...standardWebhooksScheme,
  provider: "gitlab",
  deadlineMs: 9500, // GitLab times out after 10 s, and disables a hook after several failures.
  headers: [{ ...standardWebhooksScheme.headers[0]!, event: "x-gitlab-event" }],
  eventFields: ["object_kind"],
});

/**
 * Linear. The body and the time in it are signed; the delivery's id is not. The time may be up to
 * 60 s from now. Deadline 4.5 s. As in Linear's library, the time in the body counts, not that of
 * the header: a body for `sign.linear` needs a current `webhookTimestamp`, in milliseconds.
 * https://linear.app/developers/webhooks
 */
export const linear = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "linear",
  deadlineMs: 4500, // Linear times out after 5 s.
  headers: [{ signature: "linear-signature", id: "linear-delivery", event: "linear-event" }],
  prefix: "",
  template: "{body}",
  timestamp: { field: "webhookTimestamp", unit: "ms", toleranceSeconds: 60 },
  eventFields: ["type"],
});

/**
 * Zendesk. Body and time are signed; the invocation's id is not: consider `replayGuard`. The time
 * may be up to 300 s from now. Deadline 5 s.
 * https://developer.zendesk.com/documentation/webhooks/verifying/
 */
export const zendesk = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
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
});

/**
 * Zoom, with the app's secret token. Events have no id and are deduplicated by the body's hash:
 * those of several people who leave a meeting at once differ in nothing else that all events have.
 * The gateway answers its URL validation. The time may be up to 300 s from now. Deadline 2.5 s.
 * https://developers.zoom.us/docs/api/webhooks/#verify-webhook-events
 */
export const zoom = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "zoom",
  deadlineMs: 2500, // Zoom times out after 3 s.
  headers: [{ signature: "x-zm-signature", timestamp: "x-zm-request-timestamp" }],
  prefix: "v0=",
  template: "v0:{timestamp}:{body}",
  timestamp: { unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  hashId: true,
  eventFields: ["event"],
  handshake: zoomHandshake,
});

/**
 * Calendly, with the subscription's signing key. Events have no id; their bodies differ, so they
 * are deduplicated by the body's hash. The time may be up to 300 s from now. Deadline 5 s.
 * https://developer.calendly.com/api-docs/webhooks
 */
export const calendly = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "calendly",
  headers: [{ signature: "calendly-webhook-signature" }],
  separator: ",",
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  eventFields: ["event"],
  hashId: true,
});

/**
 * WorkOS. The event's id is in the signed body. The time may be up to 180 s from now, as in
 * WorkOS's library. Deadline 5 s. https://workos.com/docs/events/data-syncing/webhooks
 */
export const workos = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "workos",
  headers: [{ signature: "workos-signature" }],
  separator: ",",
  spaced: true,
  prefix: "v1=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "ms", toleranceSeconds: 180 },
  idFields: ["id"],
  eventFields: ["event"],
});

/**
 * ElevenLabs. Events have no id and are deduplicated by the body's hash. The time may be up to 30
 * min from now, as in ElevenLabs's library. Deadline 5 s.
 * https://elevenlabs.io/docs/product-guides/administration/webhooks
 */
export const elevenlabs = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "elevenlabs",
  headers: [{ signature: "elevenlabs-signature" }],
  separator: ",",
  prefix: "v0=",
  template: "{timestamp}.{body}",
  timestamp: { item: "t=", unit: "s", toleranceSeconds: 30 * 60 },
  eventFields: ["type"],
  hashId: true,
});

/**
 * Retell, with the API key. Events have no id and are deduplicated by the body's hash. The time,
 * which follows the body in what is signed, may be up to 300 s from now. Deadline 5 s.
 * https://docs.retellai.com/features/secure-webhook
 */
export const retell = provider<TimestampedOptions>({
  ...SCHEME_DEFAULTS,
  provider: "retell",
  headers: [{ signature: "x-retell-signature" }],
  separator: ",",
  prefix: "d=",
  template: "{body}{timestamp}",
  timestamp: { item: "v=", unit: "ms", toleranceSeconds: TOLERANCE_SECONDS_DEFAULT },
  eventFields: ["event"],
  hashId: true,
});
