/** Joins the commands that look, act from outside or provision with their adapters: a connection, ports, throw-away databases. */
import { Effect, Exit, Layer, Scope } from "effect";
import { Blobs } from "../../core/blob/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Databases } from "../../core/database/Databases.ts";
import { DeadLetters } from "../../core/dead/DeadLetters.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { JournalFeed } from "../../core/journal/JournalFeed.ts";
import { Leases } from "../../core/lease/Leases.ts";
import { Snapshots } from "../../core/snapshot/Snapshots.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { Nats } from "../nats/Nats.ts";
import { natsLayer } from "../nats/natsLayer.ts";
import { machineTime } from "../node/MachineTime.ts";
import { sqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import type { ProvisionSettings, ReadPorts, Target } from "./Joins.ts";

/** Rejects with `NotProvisioned` or `BrokerUnavailable`. */
export async function openReader({ natsUrl, namespace }: Target): Promise<ReadPorts> {
  const scope = Effect.runSync(Scope.make());
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void));
  const layer = Layer.mergeAll(
    natsLayer({ servers: natsUrl.split(","), name: "agents cli", namespace }),
    sqliteDatabases({ folder: undefined }),
  );
  try {
    const context = await Effect.runPromise(Layer.buildWithScope(layer, scope));
    const ports = Effect.gen(function* () {
      const { shards } = yield* Nats;
      const calls = new CallClient({
        bus: yield* Bus,
        blobs: yield* Blobs,
        time: machineTime,
        subjects: new Subjects(namespace),
        shards,
      });
      return {
        journal: yield* Journal,
        feed: yield* JournalFeed,
        deadLetters: yield* DeadLetters,
        inbox: yield* Inbox,
        calls,
        snapshots: yield* Snapshots,
        databases: yield* Databases,
        leases: yield* Leases,
        shards,
      };
    });
    return { ...(await Effect.runPromise(Effect.provide(ports, context))), close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Creates or completes the installation. Rejects with `ShardCountMismatch`, `ProvisioningRefused` or `BrokerUnavailable`. */
export async function provisionTarget(
  { natsUrl, namespace }: Target,
  settings: ProvisionSettings,
): Promise<readonly string[]> {
  const { shards, replicas, leaseTtlMs } = settings;
  const layer = natsLayer({
    servers: natsUrl.split(","),
    name: "agents provision",
    namespace,
    provision: {
      ...(shards === undefined ? {} : { shards }),
      ...(replicas === undefined ? {} : { replicas }),
      ...(leaseTtlMs === undefined ? {} : { leaseTtlMs }),
    },
  });
  const nats = await Effect.runPromise(Effect.scoped(Effect.provide(Nats, layer)));
  return [
    `Namespace ${namespace}: streams and buckets are there`,
    `${nats.shards} shards, leases of ${nats.leaseTtlMs} ms`,
  ];
}
