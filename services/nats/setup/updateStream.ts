/**
 * Changes a stream's configuration in the steps that the server accepts. It refuses to move a
 * stream and to change its number of replicas in one update, so each is a separate step that is
 * awaited. Used by `provision`.
 */
import { setTimeout as delay } from "node:timers/promises";
import { BrokerUnavailable } from "../../../core/bus/Bus.ts";
import { ApiCode, ApiRefusal, type JetStreamApi } from "../client/JetStreamApi.ts";
import type { StreamConfig } from "../layout/streamConfigs.ts";

/** A stream of many gigabytes is copied over the network. A second run continues the first. */
const SETTLE_TIMEOUT_MS = 10 * 60_000;
const LOOK_MS = 100;

interface ClusterInfo {
  readonly config: { readonly num_replicas?: number };
  readonly cluster?: {
    readonly leader?: string;
    readonly replicas?: ReadonlyArray<{ readonly name: string; readonly current?: boolean }>;
  };
}

/** Applies `changes` to `found`. Rejects with `ApiRefusal` or `BrokerUnavailable`. */
export async function updateStream(
  api: JetStreamApi,
  found: StreamConfig,
  changes: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { placement, num_replicas: replicas, ...rest } = changes;
  const steps: Array<Readonly<Record<string, unknown>>> = [];
  if (placement !== undefined && replicas !== undefined) {
    const grows = Number(replicas) > Number(found["num_replicas"] ?? 1);
    const [move, scale] = [{ placement }, { num_replicas: replicas }];
    // The new placement has room for all replicas, the old one perhaps for a single one.
    steps.push(...(grows ? [move, scale] : [scale, move]));
    if (Object.keys(rest).length > 0) steps.push(rest);
  } else steps.push(changes);
  let config: StreamConfig = found;
  for (const [i, step] of steps.entries()) {
    config = { ...config, ...step };
    await update(api, config);
    if (i < steps.length - 1) await settled(api, found.name);
  }
}

/**
 * Retries while the stream moves. Right after an update it may still look settled; the move shows a
 * moment later, by this refusal.
 */
async function update(api: JetStreamApi, config: StreamConfig): Promise<void> {
  const deadlineMs = performance.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    try {
      await api.call(`STREAM.UPDATE.${config.name}`, config);
      return;
    } catch (error) {
      const moves = error instanceof ApiRefusal && error.code === ApiCode.streamMoveInProgress;
      if (!moves || performance.now() > deadlineMs) throw error;
      await delay(LOOK_MS);
    }
  }
}

/** Resolves when the stream has a leader and exactly its replicas, all of them current. */
async function settled(api: JetStreamApi, stream: string): Promise<void> {
  const deadlineMs = performance.now() + SETTLE_TIMEOUT_MS;
  for (;;) {
    // Nothing answers during an election.
    const info = await api.call<ClusterInfo>(`STREAM.INFO.${stream}`).catch((error: unknown) => {
      if (error instanceof BrokerUnavailable) return undefined;
      throw error;
    });
    if (info !== undefined && isSettled(info)) return;
    if (performance.now() > deadlineMs)
      throw new BrokerUnavailable({
        message: `${stream} is still being moved; run "agents provision" again later to continue`,
      });
    await delay(LOOK_MS);
  }
}

function isSettled({ config, cluster }: ClusterInfo): boolean {
  if (cluster === undefined) return true; // a single server
  const followers = cluster.replicas ?? [];
  return (
    cluster.leader !== undefined &&
    cluster.leader !== "" &&
    followers.length === (config.num_replicas ?? 1) - 1 &&
    followers.every(({ current }) => current === true)
  );
}
