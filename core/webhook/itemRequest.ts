/** One event of a batch as a request of its own, for its entity source and its agent. */
import type { WebhookRequest } from "./WebhookRoute.ts";

/**
 * The request with the item's bytes as its body, and with the content type of these. The other
 * headers stay as they came. A signature among them is that of the whole batch, not of this body.
 */
export const itemRequest = (request: WebhookRequest, body: Uint8Array): WebhookRequest => ({
  ...request,
  headers: { ...request.headers, "content-type": ["application/json"] },
  body,
});
