/**
 * Asks gateways for their sockets of a shard's agents: the first phase of a shard's start
 * (`Shard`). A gateway that does not answer in time is asked again later.
 */
import type { AgentId, ShardId } from "../../schemas/Address.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import type { CensusReply, CensusRequest } from "../../schemas/bus/SocketLists.ts";
import type { HostServices } from "./HostServices.ts";

/** A gateway that does not answer in this time does not hold up the shard's start. */
const CENSUS_TIMEOUT_MS = 1000;
/**
 * How often a gateway is asked again: nothing else reports a socket that never sends. Longer than
 * any lease, so a gateway that never answers is gone by then.
 */
const CENSUS_RETRIES_MAX = 60;

interface Census {
  readonly shard: ShardId;
  readonly gateways: ReadonlyArray<string>;
  readonly found: (id: AgentId, socket: SocketInfo) => unknown;
  /** Fires when the shard is lost. */
  readonly signal: AbortSignal;
}

/** Resolves when each gateway has answered, or has not in time. */
export async function takeCensus(services: HostServices, census: Census): Promise<void> {
  await Promise.all(census.gateways.map((gateway) => ask(services, census, gateway)));
}

async function ask(
  services: HostServices,
  census: Census,
  gateway: string,
  retries = CENSUS_RETRIES_MAX,
): Promise<void> {
  const { bus, config, time, log } = services;
  const subject = config.subjects.gateway(gateway, "census");
  let request: CensusRequest = { shard: census.shard };
  for (;;) {
    const reply = await bus.request(subject, encodeMessage(request), {
      timeoutMs: CENSUS_TIMEOUT_MS,
    });
    if (reply._tag !== "Reply") break;
    const { head } = decodeMessage<CensusReply>(reply.data);
    for (const { agent, socket } of head.sockets)
      census.found({ class: agent[0], name: agent[1] } as AgentId, socket);
    if (head.next === undefined) return;
    request = { shard: census.shard, cursor: head.next };
  }
  if (retries === 0) return;
  time.after(CENSUS_TIMEOUT_MS, () => {
    if (census.signal.aborted) return;
    ask(services, census, gateway, retries - 1).catch((error: unknown) =>
      log.warn("a gateway's sockets could not be listed", { gateway, error: String(error) }),
    );
  });
}
