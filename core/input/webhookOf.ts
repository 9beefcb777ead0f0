/**
 * The webhook that began a turn, as `getCurrentAgent().webhook` shows it: what the gateway found
 * out about it, read from the cause of the turn. The cause comes from the stored input, so a
 * repeated turn sees the same.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";

/** The webhook that runs, as `getCurrentAgent().webhook`. */
export interface CurrentWebhook {
  /** Path of its route, as the module declares it. Undefined for inputs of older releases. */
  readonly route: string | undefined;
  /** The verifier's provider, e.g. `github`. */
  readonly provider: string;
  /** False: its route is `unsigned()`, so anyone may have sent it. */
  readonly verified: boolean;
  /** The provider's id for the event; undefined where it sends none. */
  readonly deliveryId: string | undefined;
  /** The provider's event type, e.g. `push`; undefined where it sends none. */
  readonly event: string | undefined;
}

/** Name of `unsigned()` unless its options give another; older releases stored nothing else. */
const UNSIGNED = "unsigned";

/** Undefined for a turn of any other kind: HTTP, sockets, calls, schedules, mail. */
export function webhookOf(cause: Cause): CurrentWebhook | undefined {
  if (cause.kind !== "webhook") return undefined;
  const { id = "", provider = "", route, type } = cause;
  return {
    route,
    provider,
    verified: cause.verified ?? provider !== UNSIGNED,
    deliveryId: id.startsWith(`${provider}:`) ? id.slice(provider.length + 1) : undefined,
    event: type,
  };
}
