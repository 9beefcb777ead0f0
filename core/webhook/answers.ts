/**
 * The plain-text answers of a webhook route that are decided before an agent sees the request.
 * Texts and statuses are those of `interface.md` §7; what an agent answers itself is passed through
 * and is not here. Read by the gateway, in the order that `WebhookRoute.ts` gives.
 */
import type { EntityResult, PlainAnswer, Verdict, WebhookRoute } from "./WebhookRoute.ts";

const plain = (
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): PlainAnswer => ({
  status,
  headers: { "content-type": "text/plain; charset=utf-8", ...headers },
  body,
});

export const NOT_FOUND = plain(404, "Not found");
/** `Allow` names POST, and what the provider's handshake uses. */
export const methodNotAllowed = ({ verifier }: WebhookRoute): PlainAnswer =>
  plain(405, "Method not allowed", {
    allow: ["POST", ...(verifier.handshakeMethods ?? [])].join(", "),
  });
export const BODY_TOO_LARGE = plain(413, "Payload too large");
export const INVALID_SIGNATURE = plain(401, "Invalid signature");
/** Says nothing of what is missing: that is for the log. 500, so that the provider tries again. */
export const MISCONFIGURED = plain(500, "Webhook not configured");
/** Not known to be stored, or not verifiable now: the provider sends it again. */
export const UNAVAILABLE = plain(503, "Service Unavailable", { "retry-after": "1" });
/** Stored; the agent's own answer is not waited for, or did not come within the deadline. */
export const ACCEPTED = plain(202, "Accepted");
/** Seen before: a provider must read success, or it would send it again. */
export const DUPLICATE = plain(200, "OK");

/** Every event of a batch is stored. Its agents' answers are many, and are not waited for. */
export const BATCH_STORED = plain(200, "OK");

/** The `message` of an `Invalid` entity whose body could not be parsed. */
export const INVALID_JSON = "Invalid JSON";

/** What answers a verdict that ends the request here; undefined for `Verified`. */
export function answerOfVerdict(verdict: Verdict): PlainAnswer | undefined {
  switch (verdict._tag) {
    case "Verified":
      return undefined;
    case "Handshake":
      return verdict.answer;
    case "Rejected":
      return INVALID_SIGNATURE;
    case "Misconfigured":
      return MISCONFIGURED;
    case "Unavailable":
      return UNAVAILABLE;
  }
}

/** What answers an entity that could not be had; undefined for `Entity`. */
export function answerOfEntity(result: EntityResult): PlainAnswer | undefined {
  switch (result._tag) {
    case "Entity":
      return undefined;
    case "Missing":
      return plain(400, `Missing ${result.field}`);
    case "Invalid":
      return plain(400, result.message);
  }
}
