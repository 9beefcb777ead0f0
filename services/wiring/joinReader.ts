/**
 * Joins the commands that read, act from outside or provision with their adapters: a connection,
 * ports, temporary databases. `main` passes them on; `joinNats` has what they share with
 * `joinProcess`.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Databases } from "../../core/database/Databases.ts";
import { DeadLetters, type DeadLettersShape } from "../../core/dead/DeadLetters.ts";
import { DeliveryLog } from "../../core/delivery/DeliveryLog.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { JournalFeed } from "../../core/journal/JournalFeed.ts";
import { Quarantines } from "../../core/quarantine/Quarantines.ts";
import { Leases } from "../../core/lease/Leases.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { Timers } from "../../core/schedule/Timers.ts";
import { Snapshots } from "../../core/journal/Snapshots.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import { counted } from "../../schemas/counted.ts";
import { findLaggingServers } from "../nats/setup/findLaggingServers.ts";
import { unavailable } from "../nats/client/JetStreamApi.ts";
import { Nats } from "../nats/client/Nats.ts";
import { natsLayer } from "../nats/natsLayer.ts";
import { describeDurability, readDurability } from "../nats/setup/durability.ts";
import { readRange, readStored, streamsOf } from "../nats/readStored.ts";
import { purgeAgent, purgeInputs } from "../nats/purgeAgent.ts";
import { machineTime } from "../node/MachineTime.ts";
import { processLog } from "../node/ProcessLog.ts";
import { READER_HEAP_BYTES_MAX, sqliteDatabases } from "../sqlite/sqliteDatabases.ts";
import { joinArchive } from "./joinArchive.ts";
import { natsOptions, provisionOptions } from "./joinNats.ts";
import { openScoped } from "./openScoped.ts";
import type { ProvisionSettings } from "./ProcessSettings.ts";
import type { Provisioned } from "./Joins.ts";
import type { ReadPorts, ReaderOptions, Target } from "./ReadPorts.ts";
import { tellErased } from "./tellErased.ts";
import { watchCalls } from "./watchCalls.ts";

/** Long enough for a broker that restarts. Someone waits for the command's first line. */
const CONNECT_TIMEOUT_MS = 3_000;

/** A command's standard output has only its results, and its standard error is read by people. */
const commandLog = (): LogShape => processLog({ format: "text" });

/** Rejects with `NotProvisioned` or `BrokerUnavailable`. */
export async function openReader(
  target: Target,
  { sql = true, role = "cli", log = commandLog() }: ReaderOptions = {},
): Promise<ReadPorts> {
  const layer = Layer.mergeAll(
    natsLayer({ ...natsOptions(target, role, log), connectTimeoutMs: CONNECT_TIMEOUT_MS }),
    sqliteDatabases({ folder: undefined, sql, hardHeapBytesMax: READER_HEAP_BYTES_MAX }),
  );
  const ports = readPorts(target);
  const { opened, close } = await openScoped(
    Effect.flatMap(Layer.build(layer), (context) => Effect.provide(ports, context)),
  );
  return { ...opened, close };
}

const readPorts = ({ archive: folder }: Target) =>
  Effect.gen(function* () {
    const nats = yield* Nats;
    const { shards, subjects, connection } = nats;
    const bus = yield* Bus;
    const blobs = yield* Blobs;
    const deadLetters = yield* DeadLetters;
    const client = new CallClient({ bus, blobs, time: machineTime, subjects, shards });
    const leases = yield* Leases;
    const calls = watchCalls(client, leases, machineTime);
    yield* Effect.addFinalizer(() => Effect.sync(calls.close));
    const hosts = { bus, time: machineTime, subjects, newInbox: connection.newAnswerInbox };
    const stored = { journal: yield* Journal, snapshots: yield* Snapshots };
    const archive =
      folder === undefined ? undefined : joinArchive(folder, { nats, leases, time: machineTime });
    return {
      journal: archive === undefined ? stored.journal : archivedJournal({ ...stored, archive }),
      ...(archive !== undefined && { archive }),
      feed: yield* JournalFeed,
      deadLetters,
      deliveries: yield* DeliveryLog,
      inbox: yield* Inbox,
      calls,
      timers: yield* Timers,
      snapshots: stored.snapshots,
      databases: yield* Databases,
      leases,
      quarantines: yield* Quarantines,
      shards,
      namespace: subjects.namespace,
      stored: (part) =>
        part === "letters"
          ? letters(deadLetters)
          : readStored(nats, blobs, part === "inputs" ? "inbox" : "journal"),
      changes: {
        streams: () => streamsOf(nats, "journal"),
        between: (group, range) => readRange(nats, blobs, { what: "journal", group, ...range }),
        groupOf: (id) => subjects.groupOf(id),
      },
      purgeInputs: (id) => purgeInputs(nats, id),
      purge: (id, options) => purgeAgent(nats, id, options),
      awayCopies: () => findLaggingServers(nats),
      tellErased: (id, ids) => tellErased(hosts, id, ids),
    } satisfies Omit<ReadPorts, "close">;
  });

const divided = (groups: number): string => (groups === 1 ? "" : ` in ${groups} stream groups`);

/** `storedMs` is 0: a letter's head contains the time when it was stored. */
async function* letters({
  list,
}: Pick<DeadLettersShape, "list">): AsyncGenerator<BackupEntry, void, void> {
  for await (const letter of list()) yield { ...letter, storedMs: 0 };
}

/**
 * Creates or completes the installation. Rejects with `ShardCountMismatch`, `StreamGroupsRefused`,
 * `ProvisioningRefused` or `BrokerUnavailable`.
 */
export async function provisionTarget(
  target: Target,
  settings: ProvisionSettings,
): Promise<Provisioned> {
  const lost: string[] = [];
  const onLost = (stream: string): void => void lost.push(stream);
  const layer = natsLayer({
    ...natsOptions(target, "provision", commandLog()),
    provision: { ...provisionOptions(settings), moveInbox: true, onLost },
  });
  const look = Effect.gen(function* () {
    const nats = yield* Nats;
    const durability = yield* Effect.tryPromise({
      try: () => readDurability(nats),
      catch: unavailable,
    });
    const { subjects } = nats;
    const triggers = [...subjects.streamsOf("timers"), ...subjects.streamsOf("inbox")];
    return {
      lines: [
        `Namespace ${target.namespace}: streams and buckets exist`,
        `${counted(nats.shards, "shard")}${divided(nats.streamGroups)}, leases of ${nats.leaseTtlMs} ms`,
        `Durability: ${describeDurability(durability)}`,
      ],
      lost,
      lostTriggers: lost.some((stream) => triggers.includes(stream)),
    };
  });
  return Effect.runPromise(Effect.scoped(Effect.provide(look, layer)));
}
