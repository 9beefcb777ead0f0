/**
 * The check of this machine's clock before a process serves, such as one of a machine that has not
 * set its clock since it started. With a time that is days ahead, everything that is kept for a
 * time would expire at once, and schedules that recur would wait for days once it is corrected.
 * `ClockSkew` warns of smaller differences, and of those that begin later.
 */
import * as Data from "effect/Data";
import * as Effect from "effect/Effect";
import type { TimeShape } from "../../core/time/Time.ts";
import { brokerMs } from "./brokerMs.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import type { NatsShape } from "./client/Nats.ts";

/** A day, as for the clock of `Retention`: whole hours are a wrong time zone, and do less harm. */
const DIFFERENCE_MS_MAX = 24 * 3_600_000;

class ClockDiffers extends Data.TaggedError("ClockDiffers")<{ readonly message: string }> {}

/** Fails with `ClockDiffers` or `BrokerUnavailable`. */
export const checkClock = (nats: NatsShape, time: Pick<TimeShape, "nowMs">) =>
  Effect.gen(function* () {
    const theirs = yield* Effect.tryPromise({ try: () => brokerMs(nats), catch: unavailable });
    const own = time.nowMs();
    if (Math.abs(own - theirs) <= DIFFERENCE_MS_MAX) return;
    return yield* Effect.fail(
      new ClockDiffers({
        message: `this machine's clock shows ${isoOf(own)}, the broker's ${isoOf(theirs)}: correct the one that is wrong, then start again`,
      }),
    );
  });

const isoOf = (ms: number): string => new Date(ms).toISOString();
