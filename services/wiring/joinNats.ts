/**
 * The options of a process's connection to NATS, and the check of the broker's durability before a
 * process serves. Used by `joinProcess` and `joinReader`.
 */
import * as Effect from "effect/Effect";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import {
  describeDurability,
  NotDurable,
  readDurability,
  type Durability,
} from "../nats/setup/durability.ts";
import { unavailable } from "../nats/client/JetStreamApi.ts";
import type { NatsShape } from "../nats/client/Nats.ts";
import type { NatsOptions } from "../nats/natsLayer.ts";
import type { ProvisionOptions } from "../nats/setup/provision.ts";
import type { ProvisionSettings } from "./ProcessSettings.ts";
import type { Target } from "./ReadPorts.ts";
import { defined } from "../../core/collections/defined.ts";

/**
 * `role` is part of the connection's name and of the subjects of its answers, so that a broker user
 * for one role can receive only those.
 */
export const natsOptions = (
  { natsUrl, login, namespace }: Target,
  role: string,
  log: LogShape,
): NatsOptions & { readonly namespace: string } => ({
  servers: natsUrl,
  name: `agents ${role}`,
  inboxPrefix: `_INBOX.${namespace}.${role}`,
  answerPrefix: `${namespace}.answer.${role}`,
  namespace,
  log,
  ...login,
});

export function provisionOptions({
  placementCluster: cluster,
  placementTags: tags,
  ...settings
}: ProvisionSettings): ProvisionOptions {
  if (cluster === undefined && tags === undefined) return settings;
  return { ...settings, placement: defined({ cluster, tags }) };
}

interface PreflightOptions {
  /** `--require-durable`. */
  readonly required: boolean;
  /** The server is our own child on a developer's machine, where durability is not expected. */
  readonly own: boolean;
  readonly log: LogShape;
  readonly time: Pick<TimeShape, "after">;
}

/**
 * The pause before a server that was away is checked again: short enough to notice soon when it
 * comes back less durable.
 */
const AWAY_MS = 30_000;

/**
 * Checks and logs the broker's durability now, after each reconnect, and repeatedly while a server
 * is away. The returned function returns the latest result. Fails with `NotDurable` or
 * `BrokerUnavailable`.
 */
export const preflight = (nats: NatsShape, { required, own, log, time }: PreflightOptions) =>
  Effect.gen(function* () {
    const look = Effect.tryPromise({ try: () => readDurability(nats), catch: unavailable });
    let seen: Durability = yield* look;
    if (required && seen._tag !== "Durable")
      return yield* Effect.fail(
        new NotDurable({
          message: `--require-durable: the broker's durability is ${describeDurability(seen)}`,
        }),
      );
    const tell = (): void => {
      const level = own ? "debug" : seen._tag === "Durable" ? "info" : "warn";
      log[level]("durability of the broker", { durability: describeDurability(seen) });
    };
    tell();
    let cancel: (() => void) | undefined;
    let over = false;
    const lookAgain = (): void => {
      readDurability(nats)
        .then(
          (found) => {
            const changed = describeDurability(found) !== describeDurability(seen);
            seen = found;
            if (changed) tell();
          },
          // After a failed read the last result stands until the next reconnect.
          () => undefined,
        )
        .finally(waitForAway);
    };
    const waitForAway = (): void => {
      cancel?.();
      const isAway = seen._tag === "Durable" && seen.away.length > 0;
      cancel = isAway && !over ? time.after(AWAY_MS, lookAgain) : undefined;
    };
    waitForAway();
    const offChange = nats.connection.onChange((up) => {
      if (up) lookAgain();
    });
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        over = true;
        offChange();
        cancel?.();
      }),
    );
    return (): Durability => seen;
  });
