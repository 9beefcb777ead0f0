/** One event of a batch as a request of its own: what its entity source and its agent are given. */
import type { WebhookRequest } from "./WebhookRoute.ts";

/**
 * The request with the item's bytes for its body, and the content type that they have. The other
 * headers stay as they came: a signature among them is the whole batch's, not this body's.
 */
export const itemRequest = (request: WebhookRequest, body: Uint8Array): WebhookRequest => ({
  ...request,
  headers: { ...request.headers, "content-type": ["application/json"] },
  body,
});
