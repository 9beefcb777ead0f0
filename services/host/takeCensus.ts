/**
 * Asks gateways for their sockets of a shard's agents: the first phase of a shard's start
 * (`Shard`). A gateway that does not answer in time is asked again later.
 */
import { shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { CensusReply, CensusRequest } from "../../schemas/bus/SocketLists.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import type { HostServices } from "./HostServices.ts";

/** A gateway that does not answer in this time does not hold up the shard's start. */
const CENSUS_TIMEOUT_MS = 1000;
/**
 * How often a gateway is asked again: nothing else reports a socket that never sends. Longer than
 * any lease, so a gateway that never answers is gone by then.
 */
const CENSUS_RETRIES_MAX = 60;
/** 400,000 sockets (`SocketTable`): more than one gateway can hold, for all shards. */
const CENSUS_PAGES_MAX = 2_000;

interface Census {
  readonly shard: ShardId;
  readonly gateways: ReadonlyArray<string>;
  /** `isWorking` is as in `CensusReply`. */
  readonly found: (id: AgentId, socket: SocketInfo, isWorking: boolean) => unknown;
  /** Fires when the shard is lost. */
  readonly signal: AbortSignal;
}

/**
 * Resolves when each gateway has answered, or has not in time. Never rejects: a gateway that
 * answers what this release can't read costs its own sockets, and not the shard.
 */
export async function takeCensus(services: HostServices, census: Census): Promise<void> {
  await Promise.all(census.gateways.map((gateway) => ask(services, census, gateway)));
}

async function ask(
  services: HostServices,
  census: Census,
  gateway: string,
  retries = CENSUS_RETRIES_MAX,
): Promise<void> {
  const { time, log } = services;
  try {
    if (await list(services, census, gateway)) return;
  } catch (error) {
    // Once, and not for each retry.
    if (retries === CENSUS_RETRIES_MAX)
      log.warn("a gateway's sockets could not be listed", { gateway, error: String(error) });
  }
  if (retries === 0) return;
  time.after(CENSUS_TIMEOUT_MS, () => {
    if (!census.signal.aborted) void ask(services, census, gateway, retries - 1);
  });
}

/**
 * Reports a gateway's sockets, page by page. Returns false if it does not answer in time. Rejects
 * with `CorruptFrame` or `UnknownVersion`.
 */
async function list(
  { bus, config, log }: HostServices,
  { shard, found, signal }: Census,
  gateway: string,
): Promise<boolean> {
  const subject = config.subjects.gateway(gateway, "census");
  let request: CensusRequest = { shard };
  for (let page = 0; page < CENSUS_PAGES_MAX && !signal.aborted; page++) {
    const reply = await bus.request(subject, encodeMessage(request), {
      timeoutMs: CENSUS_TIMEOUT_MS,
    });
    if (reply._tag !== "Reply") return false;
    const { sockets, next } = decodeMessage<Partial<CensusReply>>(reply.data).head;
    if (!Array.isArray(sockets)) throw new CorruptFrame({ message: "a census without sockets" });
    for (const { agent, socket, isWorking } of (sockets as CensusReply["sockets"]).filter(
      isEntry,
    )) {
      const id = { class: agent[0], name: agent[1] } as AgentId;
      if (shardOf(id, config.shards) === shard) found(id, socket, isWorking === true);
    }
    if (next === undefined) return true;
    request = { shard, cursor: next };
  }
  if (!signal.aborted) log.warn("a gateway lists more sockets than a shard can have", { gateway });
  return true;
}

/** Whether an element of a census is one: what a shard's slots rely on. */
function isEntry(entry: Partial<CensusReply["sockets"][number]> | null): boolean {
  const { agent, socket } = entry ?? {};
  const texts: unknown[] = [
    agent?.[0],
    agent?.[1],
    socket?.gateway,
    socket?.sid,
    socket?.id,
    socket?.url,
  ];
  const areLists = Array.isArray(agent) && Array.isArray(socket?.headers);
  return areLists && texts.every((text) => typeof text === "string");
}
