/**
 * The time in which shards that a host has lost may have no owner. One line of the log ends it, so
 * that whoever reads of lost shards also reads when they are served again. `Host` reports the
 * losses, and that every shard has an owner.
 */
import type { LogShape } from "../telemetry/Log.ts";
import type { TimeShape } from "../time/Time.ts";

interface OutageOptions {
  readonly host: string;
  readonly log: LogShape;
  readonly time: Pick<TimeShape, "monotonicMs">;
}

export class Outage {
  private sinceMs: number | undefined;

  constructor(private readonly options: OutageOptions) {}

  /** A shard was lost. */
  begins(): void {
    this.sinceMs ??= this.options.time.monotonicMs();
  }

  /** Every shard has an owner; this host has `shards` of them. */
  ends(shards: number): void {
    if (this.sinceMs === undefined) return;
    const { host, log, time } = this.options;
    const outageMs = Math.round(time.monotonicMs() - this.sinceMs);
    this.sinceMs = undefined;
    log.info("host serves again: every shard has an owner", { host, shards, outageMs });
  }
}
