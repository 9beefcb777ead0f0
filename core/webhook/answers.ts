/**
 * The plain-text answers of a webhook route that are decided before an agent sees the request.
 * Texts and statuses are those of `interface.md` §7. An agent's own answer is passed through and is
 * not here. The gateway uses them in the order of `WebhookRoute.ts`.
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

/** `Allow` lists POST and the methods of the provider's handshake. */
export const methodNotAllowed = ({ verifier }: WebhookRoute): PlainAnswer =>
  plain(405, "Method not allowed", {
    allow: ["POST", ...(verifier.handshakeMethods ?? [])].join(", "),
  });
export const BODY_TOO_LARGE = plain(413, "Payload too large");
const INVALID_SIGNATURE = plain(401, "Invalid signature");
/** Does not name what is missing: the log does. The status 500 makes the provider retry. */
const MISCONFIGURED = plain(500, "Webhook not configured");
/** The request is not known to be stored, or can't be verified now. The provider retries. */
export const UNAVAILABLE = plain(503, "Service Unavailable", { "retry-after": "1" });
/** Stored. The route does not wait for the agent's answer, or the deadline has passed. */
export const ACCEPTED = plain(202, "Accepted");

/** No target of the route takes the event, or any of a batch. Nothing is stored. */
export const FILTERED = plain(200, "OK");

/** Every event of a batch is stored. The gateway does not wait for the answers of its agents. */
export const BATCH_STORED = plain(200, "OK");

/** The `message` of an `Invalid` entity whose body could not be parsed. */
export const INVALID_JSON = "Invalid JSON";

/** The answer to a verdict that ends the request; undefined for `Verified`. */
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

/** The answer to a request without a usable entity; undefined for `Entity`. */
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
