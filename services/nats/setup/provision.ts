/**
 * Creates an installation's streams and buckets, or checks and completes existing ones: inbox,
 * timers, journal and snapshots of each stream group, dead letters, the two buckets of leases,
 * blobs, bodies, and the two of the delivery log. Several runs, also concurrent ones, are safe:
 * each creation either succeeds, or finds another's stream and checks it.
 *
 * Each shard's consumer is created by the host that takes the shard (`ShardConsumer`). The numbers
 * of shards and of stream groups are stored in the first inbox's metadata and never change. They
 * determine the stream of an agent's messages; a message that moved to another stream would lose
 * its sequence, by which journals, snapshots and local images are compared.
 */
import * as Data from "effect/Data";
import { NotPermitted } from "../../../core/bus/Bus.ts";
import { SHARDS_DEFAULT } from "../../../schemas/Address.ts";
import { STORED_FORMATS } from "../../../schemas/StoredFormats.ts";
import type { StreamLayout, Subjects } from "../../../schemas/Subjects.ts";
import { ApiCode, ApiRefusal, type JetStreamApi } from "../client/JetStreamApi.ts";
import {
  DELIVERIES_BYTES,
  FORMATS_KEY,
  NANOS_PER_MS,
  REFUSALS_BYTES,
  SHARDS_KEY,
  STREAM_GROUPS_KEY,
  streamConfigs,
  type Placement,
  type StreamChoices,
  type StreamConfig,
} from "../layout/streamConfigs.ts";
import type { NatsShape } from "../client/Nats.ts";
import { liveHost, moveInbox, retireInbox } from "./moveInbox.ts";
import { updateStream } from "./updateStream.ts";

/** A dead host's agents move after this time. With a shorter one, a busy host is taken for dead. */
export const LEASE_TTL_MS_DEFAULT = 5_000;

export interface ProvisionOptions {
  /** Fixed by the first provisioning. Undefined: the existing number, or 64. */
  readonly shards?: number | undefined;
  /** Divides the shards. Fixed by the first provisioning. Undefined: the present number, or 1. */
  readonly streamGroups?: number | undefined;
  /** Replicas of each stream. Undefined: the existing number, or 1. */
  readonly replicas?: number | undefined;
  /** The placement of the replicas. Undefined leaves it unchanged. */
  readonly placement?: Placement | undefined;
  /** For new streams only. `memory` is for tests: a restart loses everything. */
  readonly storage?: "file" | "memory";
  /** Milliseconds. Undefined: the existing TTL, or 5,000. */
  readonly leaseTtlMs?: number | undefined;
  /**
   * Whether an older release's inbox may be replaced (`moveInbox`). Only for processes that never
   * run it concurrently: `agents provision`, and `agents dev` with a server of its own. Without it
   * such an inbox is refused. So is a lost inbox, timers' stream or journal: agents would go on
   * without what it held, and nobody would know.
   */
  readonly moveInbox?: boolean;
  /** Called for each stream that was missing, although a later one exists, and is created again. */
  readonly onLost?: (stream: string) => void;
}

/** What an installation was provisioned with. */
interface Installation extends StreamLayout {
  readonly leaseTtlMs: number;
}

/** The installation has another number of shards, which cannot change. */
export class ShardCountMismatch extends Data.TaggedError("ShardCountMismatch")<{
  readonly provisioned: number;
  readonly requested: number;
  readonly message: string;
}> {}

/** The stream groups do not divide the shards, or the installation has another number. */
export class StreamGroupsRefused extends Data.TaggedError("StreamGroupsRefused")<{
  readonly requested: number;
  readonly message: string;
}> {}

/** A newer release writes formats there that this one can't read. */
export class NewerInstallation extends Data.TaggedError("NewerInstallation")<{
  readonly formats: number;
  readonly message: string;
}> {}

/** The broker has no installation of this namespace: run `agents provision`. */
export class NotProvisioned extends Data.TaggedError("NotProvisioned")<{
  readonly namespace: string;
  readonly message: string;
}> {}

/** The broker refuses a stream or its settings, or the login can't read it: `message` says why. */
export class ProvisioningRefused extends Data.TaggedError("ProvisioningRefused")<{
  readonly stream: string;
  readonly code: number;
  readonly message: string;
}> {}

interface StreamInfo {
  readonly config: StreamConfig & { readonly metadata?: Readonly<Record<string, string>> };
}

/**
 * Rejects with `ShardCountMismatch`, `StreamGroupsRefused`, `NewerInstallation`,
 * `ProvisioningRefused` or `BrokerUnavailable`.
 */
export async function provision(
  broker: Pick<NatsShape, "api" | "publisher" | "reader">,
  subjects: Subjects,
  options: ProvisionOptions = {},
): Promise<Installation> {
  const { api } = broker;
  const { layout, stored } = await layoutAt(api, subjects, options);
  const laid = subjects.withLayout(layout);
  const bucket = `KV_${subjects.bucket.leases}`;
  const leases = await info(api, bucket);
  const isLost = stored !== undefined && leases === undefined;
  const configs = streamConfigs(laid, choicesOf(options, stored, leases?.config)).map((config) =>
    isLost && config.name === bucket ? afterAllEpochs(config) : config,
  );
  // Read concurrently, because mostly all exist. Created one after the other.
  const there = await Promise.all(configs.map(({ name }) => info(api, name)));
  const outdated = there.filter((found) => found !== undefined && isOutdated(laid, found.config));
  if (outdated.length > 0) await checkMovable(broker, laid, options);
  for (const old of outdated) await retireInbox(broker, laid, old!.config);
  // They are created in this order, also by a run that was interrupted.
  const last = there.findLastIndex((found) => found !== undefined);
  for (const [i, config] of configs.entries()) {
    if (outdated.includes(there[i])) continue;
    const isGone = i < last && outdated.length === 0 && there[i] === undefined;
    if (isGone && options.moveInbox !== true) await refuseIfLost(api, laid, config.name);
    const found = there[i] ?? (await createOrFind(api, config));
    if (found !== undefined) await complete(api, config, found.config, options);
    else if (isGone) options.onLost?.(config.name);
  }
  for (const group of laid.groups) {
    const name = laid.streamOf("inbox", group);
    const old = outdated.find((found) => found?.config.name === name)?.config;
    if (old === undefined) continue;
    const wanted = configs.find((config) => config.name === name)!;
    const create = (): Promise<unknown> => createOrFind(api, wanted);
    await moveInbox(broker, laid, group, { old, create });
  }
  await raiseFormats(api, laid);
  return readInstallation(api, subjects);
}

/**
 * The installation's layout, and the metadata that has it. Creates the first inbox of a new
 * installation before any other stream, because its metadata has the layout, which determines all
 * other steps. `stored`: undefined if it was created now.
 */
async function layoutAt(
  api: JetStreamApi,
  subjects: Subjects,
  options: ProvisionOptions,
): Promise<{ readonly layout: StreamLayout; readonly stored: StreamInfo["config"] | undefined }> {
  const { shards = SHARDS_DEFAULT, streamGroups = 1 } = options;
  if (!Number.isInteger(shards) || shards < 1)
    throw new RangeError(`shards must be a whole number above 0, not ${shards}`);
  const wanted: StreamLayout = { shards, streamGroups };
  // While the inbox is being moved, the timers' stream has the same metadata.
  let found = (await info(api, subjects.stream.inbox)) ?? (await info(api, subjects.stream.timers));
  if (found === undefined) {
    if (shards % streamGroups !== 0) throw indivisible(shards, streamGroups);
    const [first] = streamConfigs(subjects.withLayout(wanted), choicesOf(options, undefined));
    found = await createOrFind(api, first!);
  }
  if (found === undefined) return { layout: wanted, stored: undefined };
  const { config } = found;
  checkFormats(config, subjects.namespace);
  const layout = layoutOf(config);
  checkShards(layout.shards, options.shards, subjects.namespace);
  checkGroups(layout.streamGroups, options.streamGroups, subjects.namespace);
  return { layout, stored: config };
}

/**
 * Choices that were not made are taken from the existing streams, so that a stream which a new
 * release adds is as safe as the others. Gateways' leases live as long as the others (`leases`: the
 * configuration of their bucket).
 */
const choicesOf = (
  { replicas, placement, storage, leaseTtlMs }: ProvisionOptions,
  found: StreamConfig | undefined,
  leases?: StreamConfig,
): StreamChoices => ({
  replicas: replicas ?? Number(found?.["num_replicas"] ?? 1),
  storage: storage ?? (found?.["storage"] as StreamChoices["storage"] | undefined) ?? "file",
  leaseTtlMs: leaseTtlMs ?? (leases === undefined ? LEASE_TTL_MS_DEFAULT : ttlMsOf(leases)),
  placement: placement ?? (found?.["placement"] as Placement | undefined),
});

/**
 * For a bucket of leases that was lost while journals were not. A claim's epoch is its sequence
 * there, and a host starts no agent whose journal has a later epoch. Fewer than 1,000 renewals a
 * second were stored, so that every former sequence is below the time in milliseconds.
 */
const afterAllEpochs = (bucket: StreamConfig): StreamConfig => ({
  ...bucket,
  first_seq: Date.now(),
});

/** Looks again: another process may have created the streams while this one looked for them. */
async function refuseIfLost(api: JetStreamApi, subjects: Subjects, stream: string): Promise<void> {
  const kinds = ["inbox", "timers", "journal"] as const;
  if (!kinds.some((kind) => subjects.streamsOf(kind).includes(stream))) return;
  if ((await info(api, stream)) !== undefined) return;
  throw new ProvisioningRefused({
    stream,
    code: 0,
    message: `the stream ${stream} is missing, although others of the installation exist: run "agents provision", which creates it again and says what was lost`,
  });
}

/** An inbox with scheduled messages, which the server never turns off. */
const isOutdated = (subjects: Subjects, { name, allow_msg_schedules }: StreamConfig): boolean =>
  allow_msg_schedules === true && subjects.streamsOf("inbox").includes(name);

async function checkMovable(
  broker: Pick<NatsShape, "api" | "publisher" | "reader">,
  subjects: Subjects,
  options: ProvisionOptions,
): Promise<void> {
  const refuse = (todo: string): ProvisioningRefused =>
    new ProvisioningRefused({
      stream: subjects.stream.inbox,
      code: 0,
      message: `the stream ${subjects.stream.inbox} was created by an older release. Anyone who may publish to it can empty it, so it has to be replaced: ${todo}`,
    });
  if (options.moveInbox !== true)
    throw refuse('stop the hosts and gateways, run "agents provision" once, and start them');
  const host = await liveHost(broker, subjects);
  if (host !== undefined)
    throw refuse(
      `the host ${host} is still running; stop the hosts, and run "agents provision" again`,
    );
}

/** Releases that know a smaller version refuse to start here. Rejects with `BrokerUnavailable`. */
export async function raiseFormats(
  api: JetStreamApi,
  subjects: Subjects,
  formats = STORED_FORMATS,
): Promise<void> {
  const { config } = (await info(api, subjects.stream.inbox))!;
  if (formatsOf(config) >= formats) return;
  await updateStream(api, config, {
    metadata: { ...config.metadata, [FORMATS_KEY]: `${formats}` },
  });
}

function checkFormats(config: StreamInfo["config"], namespace: string): void {
  const formats = formatsOf(config);
  if (formats <= STORED_FORMATS) return;
  throw new NewerInstallation({
    formats,
    message: `a newer release has upgraded "${namespace}": its stored formats have version ${formats}, and this release reads up to ${STORED_FORMATS}. Start the newer release, or restore a backup from before the upgrade into another namespace`,
  });
}

const formatsOf = ({ metadata }: StreamInfo["config"]): number =>
  Number(metadata?.[FORMATS_KEY] ?? 1);

/** Fails with `NotProvisioned`, `NewerInstallation`, `ProvisioningRefused`, `BrokerUnavailable`. */
export async function readInstallation(
  api: JetStreamApi,
  subjects: Subjects,
): Promise<Installation> {
  const inbox = await info(api, subjects.stream.inbox);
  const leases = await info(api, `KV_${subjects.bucket.leases}`);
  const layout = inbox === undefined ? undefined : layoutOf(inbox.config);
  if (leases === undefined || layout === undefined || !(layout.shards > 0))
    throw new NotProvisioned({
      namespace: subjects.namespace,
      message: `nothing is provisioned under "${subjects.namespace}" on this broker: run "agents provision" once`,
    });
  checkFormats(inbox!.config, subjects.namespace);
  return { ...layout, leaseTtlMs: ttlMsOf(leases.config) };
}

const ttlMsOf = (leases: StreamConfig): number => Number(leases["max_age"]) / NANOS_PER_MS;

/** Returns undefined for a stream that was created as wanted; otherwise the existing one. */
async function createOrFind(
  api: JetStreamApi,
  config: StreamConfig,
): Promise<StreamInfo | undefined> {
  const found = await info(api, config.name);
  if (found !== undefined) return found;
  try {
    await api.call(`STREAM.CREATE.${config.name}`, config);
    return undefined;
  } catch (error) {
    if (!(error instanceof ApiRefusal)) throw notPermitted(config.name, error) ?? error;
    // Another process created it between the check and the creation.
    const other = error.code === ApiCode.streamNameInUse ? await info(api, config.name) : undefined;
    if (other !== undefined) return other;
    throw refused(config.name, error);
  }
}

async function info(api: JetStreamApi, stream: string): Promise<StreamInfo | undefined> {
  try {
    return await api.streamInfo<StreamInfo>(stream);
  } catch (error) {
    if (error instanceof ApiRefusal && error.code === ApiCode.streamNotFound) return undefined;
    throw notPermitted(stream, error) ?? error;
  }
}

/** What to check when a login may not do this; undefined for another error. */
const notPermitted = (stream: string, error: unknown): ProvisioningRefused | undefined =>
  error instanceof NotPermitted
    ? new ProvisioningRefused({
        stream,
        code: 0,
        message: `${error.message}: is the namespace right, and is it the login for this process (deploy/nats/permissions.conf)?`,
      })
    : undefined;

/** Updates a stream of an older release, or with other choices, to `wanted`. */
async function complete(
  api: JetStreamApi,
  wanted: StreamConfig,
  found: StreamConfig,
  options: ProvisionOptions,
): Promise<void> {
  const kept = new Set(["metadata", "storage"]); // the first provisioning's, for ever
  if (options.replicas === undefined) kept.add("num_replicas");
  if (options.leaseTtlMs === undefined && wanted["max_age"] !== 0)
    kept.add("max_age").add("duplicate_window");
  // An operator's limits are kept, but on timers they would drop the oldest of what was stored.
  if (wanted["allow_msg_schedules"] !== true)
    for (const limit of ["max_msgs", "max_bytes"]) kept.add(limit);
  const changes = Object.entries(wanted).filter(
    ([key, value]) => !kept.has(key) && !same(found[key], value),
  );
  if (changes.length === 0) return;
  try {
    await updateStream(api, found, Object.fromEntries(changes));
  } catch (error) {
    throw error instanceof ApiRefusal ? refused(wanted.name, error) : error;
  }
}

/** The server omits fields that are zero or false. */
const same = (found: unknown, wanted: unknown): boolean =>
  JSON.stringify(found ?? 0) === JSON.stringify(wanted) || (!found && !wanted);

const layoutOf = ({ metadata }: StreamInfo["config"]): StreamLayout => ({
  shards: Number(metadata?.[SHARDS_KEY]),
  streamGroups: Number(metadata?.[STREAM_GROUPS_KEY] ?? 1),
});

function checkShards(provisioned: number, requested: number | undefined, namespace: string): void {
  if (requested === undefined || provisioned === requested) return;
  throw new ShardCountMismatch({
    provisioned,
    requested,
    message: `"${namespace}" was provisioned with ${provisioned} shards, but ${requested} were requested; the number can't change: leave it out, or use another namespace`,
  });
}

function checkGroups(provisioned: number, requested: number | undefined, namespace: string): void {
  if (requested === undefined || provisioned === requested) return;
  throw new StreamGroupsRefused({
    requested,
    message: `"${namespace}" was provisioned with --stream-groups ${provisioned}, but ${requested} were requested; the number can't change: leave it out, or provision another namespace and move the agents ("agents export", "agents import")`,
  });
}

const indivisible = (shards: number, requested: number): StreamGroupsRefused =>
  new StreamGroupsRefused({
    requested,
    message: `${shards} shards can't be divided into ${requested} stream groups: use a number that divides them`,
  });

const refused = (stream: string, error: ApiRefusal): ProvisioningRefused =>
  new ProvisioningRefused({
    stream,
    code: error.code,
    message: `the broker refuses the stream ${stream}: ${error.message} (${error.code}); ${REMEDIES[error.code] ?? "nats-server 2.12.14 or 2.14.4, or newer, is needed"}`,
  });

const REMEDIES: Readonly<Record<number, string>> = {
  [ApiCode.replicasNeedCluster]: "use --replicas 1, or a cluster of nats-servers",
  [ApiCode.streamsMaxReached]:
    "raise max_streams of the account: an installation has eleven, and four more for each stream group after the first",
  [ApiCode.storageExceeded]: `the delivery log reserves ${(DELIVERIES_BYTES + REFUSALS_BYTES) / 2 ** 20} MiB: free disk space, or raise max_file_store of the server or max_file of the account`,
};
