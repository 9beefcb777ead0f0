/**
 * The two key-value buckets of leases, and which keys lie in which. Used by `NatsLeases` and
 * `LeaseWatch`; `streamConfigs` has their settings.
 *
 * A bucket with expiry markers always takes rollups, so whoever may publish one of its keys can
 * empty it. Gateways face strangers. Their leases therefore lie in a bucket of their own, and a
 * stolen gateway login can't publish to the bucket of shards and hosts.
 *
 * Gateways of older releases keep their lease in the first bucket. It is still read for them, and
 * this release writes no gateway's lease there. From the second bucket only gateways' keys are
 * read.
 */
import { GATEWAY_KEYS } from "../../../core/lease/leaseKeys.ts";
import type { Subjects } from "../../../schemas/Subjects.ts";

export interface LeaseBucket {
  readonly stream: string;
  /** Start of the subjects of its keys. */
  readonly prefix: string;
  /** Subjects of the keys that are taken from it. */
  readonly filter: string;
  /** Start of the keys that are taken from it. */
  readonly keys: string;
}

const bucket = (name: string, keys: string): LeaseBucket => {
  const prefix = `$KV.${name}.`;
  return { stream: `KV_${name}`, prefix, filter: `${prefix}${keys}>`, keys };
};

export class LeaseBuckets {
  /** Leases of shards and hosts. */
  readonly owners: LeaseBucket;
  readonly gateways: LeaseBucket;

  constructor({ bucket: { leases, gateways } }: Pick<Subjects, "bucket">) {
    this.owners = bucket(leases, "");
    this.gateways = bucket(gateways, GATEWAY_KEYS);
  }

  get all(): readonly LeaseBucket[] {
    return [this.owners, this.gateways];
  }

  /** The one that a key is written to. */
  of(key: string): LeaseBucket {
    return key.startsWith(GATEWAY_KEYS) ? this.gateways : this.owners;
  }

  /** Those that can hold keys with this start. */
  withKeys(start: string): readonly LeaseBucket[] {
    return this.all.filter(({ keys }) => keys.startsWith(start) || start.startsWith(keys));
  }
}
