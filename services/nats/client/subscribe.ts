/**
 * Makes the subscriptions of this folder's adapters. A throw in a callback would silently end the
 * client's read loop: the socket stays open, and the process reads nothing any more. It is made
 * fatal instead, as an uncaught error.
 */
import type { Msg, NatsConnection, Subscription } from "@nats-io/nats-core";

/** `error`: the subscription has ended, e.g. because the login may not have it. */
type SubscriptionCallback = (error: Error | null, message: Msg) => void;

export function subscribe(
  client: Pick<NatsConnection, "subscribe">,
  subject: string,
  callback: SubscriptionCallback,
  options: { readonly queue?: string } = {},
): Subscription {
  return client.subscribe(subject, {
    ...options,
    callback: (error, message) => {
      try {
        callback(error, message);
      } catch (thrown) {
        queueMicrotask(() => {
          throw thrown;
        });
      }
    },
  });
}
