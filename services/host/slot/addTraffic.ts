/**
 * Adds to listed connections what their gateways have counted of them, for `agents connections`.
 * Gateways count, because a socket outlives the agent in memory and the agent's host.
 */
import type { BusShape } from "../../../core/bus/Bus.ts";
import type { CallAnswer } from "../../../core/call/CallAnswer.ts";
import type { LogShape } from "../../../core/telemetry/Log.ts";
import { decodeMessage, encodeMessage } from "../../../schemas/bus/message.ts";
import type {
  ConnectionsReply,
  SocketTraffic,
  TrafficReply,
  TrafficRequest,
} from "../../../schemas/bus/SocketLists.ts";
import type { Subjects } from "../../../schemas/Subjects.ts";

/** If a gateway takes longer, its connections are shown without their traffic. */
const ANSWER_MS = 1_000;

interface TrafficServices {
  readonly bus: Pick<BusShape, "request">;
  readonly config: { readonly subjects: Pick<Subjects, "gateway"> };
  readonly log: Pick<LogShape, "debug">;
}

/** The answer to a `connections`. Never rejects. */
export async function addTraffic(
  { bus, config, log }: TrafficServices,
  reply: ConnectionsReply,
): Promise<CallAnswer> {
  const sids = new Map<string, string[]>();
  for (const { gateway, sid } of reply.connections) {
    const of = sids.get(gateway);
    if (of === undefined) sids.set(gateway, [sid]);
    else of.push(sid);
  }
  const found = new Map<string, SocketTraffic>();
  const ask = async (gateway: string, traffic: ReadonlyArray<string>): Promise<void> => {
    const request: TrafficRequest = { traffic };
    const answer = await bus.request(
      config.subjects.gateway(gateway, "census"),
      encodeMessage(request),
      { timeoutMs: ANSWER_MS },
    );
    if (answer._tag !== "Reply") return;
    for (const { sid, ...one } of decodeMessage<TrafficReply>(answer.data).head.traffic ?? [])
      found.set(`${gateway} ${sid}`, one);
  };
  await Promise.all(
    Array.from(sids, ([gateway, of]) =>
      ask(gateway, of).catch((error: unknown) =>
        log.debug("a gateway's counters could not be read", { gateway, error: `${error}` }),
      ),
    ),
  );
  const connections = reply.connections.map((connection) => {
    const traffic = found.get(`${connection.gateway} ${connection.sid}`);
    return traffic === undefined ? connection : { ...connection, traffic };
  });
  const value: ConnectionsReply = { ...reply, connections };
  return { reply: { kind: "result", value } };
}
