/**
 * The requests with which providers test that an endpoint exists and belongs to the app, and their
 * answers. The providers' rows name them. A handshake is only answered once the request's signature
 * is verified. The greetings have no signature: `metaGreeting` checks a token, `probeGreeting`
 * none.
 */
import { createHmac, type KeyObject } from "node:crypto";
import type { PlainAnswer, WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";
import { parsedBody, valueAt } from "../verifier/ParsedBody.ts";
import { Secrets, type Secret } from "../verifier/Secrets.ts";
import { sameText } from "../verifier/Signatures.ts";
import type { VerifierParts } from "../verifier/verifierOf.ts";

const answer = (body: string, contentType = "text/plain; charset=utf-8"): PlainAnswer => ({
  status: 200,
  headers: { "content-type": contentType, "x-content-type-options": "nosniff" },
  body,
});
const json = (value: unknown): PlainAnswer => answer(JSON.stringify(value), "application/json");

/**
 * Slack's URL challenge, and the `ssl_check` of its commands.
 * https://docs.slack.dev/reference/events/url_verification
 */
export function slackHandshake(request: WebhookRequest): PlainAnswer | undefined {
  const body = parsedBody(request);
  if (body._tag === "Form" && body.fields.get("ssl_check") === "1") return answer("");
  if (valueAt(body, "type") !== "url_verification") return undefined;
  const challenge = valueAt(body, "challenge");
  return typeof challenge === "string" ? answer(challenge) : undefined;
}

/**
 * Discord's two endpoints. Webhook events: `type` 0 is a ping, 1 an event. Interactions: `type` 1
 * is a ping, and no interaction has an `event`.
 */
export function discordHandshake(request: WebhookRequest): PlainAnswer | undefined {
  const body = parsedBody(request);
  const type = valueAt(body, "type");
  if (type === 0) return { status: 204, headers: {}, body: "" };
  return type === 1 && valueAt(body, "event") === undefined ? json({ type: 1 }) : undefined;
}

/**
 * Zoom's URL validation. The answer's JSON follows the documentation, not its sample code.
 * https://developers.zoom.us/docs/api/webhooks/#validate-your-webhook-endpoint
 */
export function zoomHandshake(request: WebhookRequest, key: KeyObject): PlainAnswer | undefined {
  const body = parsedBody(request);
  if (valueAt(body, "event") !== "endpoint.url_validation") return undefined;
  const plainToken = valueAt(body, "payload.plainToken");
  if (typeof plainToken !== "string") return undefined;
  const encryptedToken = createHmac("sha256", key).update(plainToken).digest("hex");
  return json({ plainToken, encryptedToken });
}

/** Intercom's test of a new endpoint: a notification with the topic `ping`. */
export const intercomHandshake = (request: WebhookRequest): PlainAnswer | undefined =>
  valueAt(parsedBody(request), "topic") === "ping" ? answer("OK") : undefined;

/** Meta documents a number. Letters are accepted too; markup and line ends are not. */
const CHALLENGE = /^[\w.-]{1,256}$/;

/** Meta's subscription: a GET with the app's own token, answered with its challenge. */
export function metaGreeting(
  provider: string,
  verifyToken: Secret | ReadonlyArray<Secret>,
): NonNullable<VerifierParts["greeting"]> {
  const tokens = new Secrets(provider, verifyToken, "plain", "verifyToken");
  return {
    methods: ["GET"],
    secrets: tokens,
    verdictOn: (request) => {
      const found = tokens.keysFor(request);
      if (found._tag !== "Keys") return found;
      const [, text = ""] = /\?(.*)$/s.exec(request.url) ?? [];
      const query = new URLSearchParams(text);
      const given = query.getAll("hub.verify_token");
      let matches = false;
      for (const key of found.keys)
        if (given.length === 1 && sameText(key.export().toString(), given[0]!)) matches = true;
      if (!matches || query.get("hub.mode") !== "subscribe")
        return { _tag: "Rejected", reason: "not a subscription with the verify token" };
      const challenge = query.get("hub.challenge") ?? "";
      return CHALLENGE.test(challenge)
        ? { _tag: "Handshake", answer: answer(challenge) }
        : { _tag: "Rejected", reason: "the challenge is not a plain word" };
    },
  };
}

/** A HEAD without a body. Every caller is answered, since the answer reveals nothing. */
export const probeGreeting: NonNullable<VerifierParts["greeting"]> = {
  methods: ["HEAD"],
  verdictOn: () => ({ _tag: "Handshake", answer: answer("") }),
};
