/**
 * A socket that connects to a Durable Object: its `fetch` receives the upgrade request, and accepts
 * the socket or answers something else, which the gateway sends. Part of `socketCalls`, which runs
 * the connect sequence of the protocol for other agents.
 */
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import { Connection } from "../connection/Connection.ts";
import type { ObjectActor } from "../durableObject/ObjectActor.ts";
import { ObjectSocket } from "../socket/ObjectSocket.ts";
import { wholeResponse } from "../http/takeResponse.ts";
import { INTERNAL_ERROR } from "../input/fixedAnswers.ts";
import { makeRequest } from "../input/runWebhook.ts";
import { causeOfConnect } from "../journal/causeOf.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";

const { tags } = ObjectSocket.internals;

/** The request that opens a socket. */
export const upgradeRequest = ({ url, headers }: SocketInfo): Request =>
  makeRequest("GET", url, {
    headers: headers.map(([name, value]): [string, string] => [name, value]),
    body: new Uint8Array(0),
  });

export async function connectObject(
  agent: ActiveAgent,
  actor: ObjectActor,
  info: SocketInfo,
): Promise<CallAnswer> {
  const request = upgradeRequest(info);
  const cause = causeOfConnect(info.id, info.url, agent.time.nowMs());
  const turn = agent.newTurn(cause, { request });
  try {
    return await agent.run(turn, async () => {
      const upgraded = await actor.upgrade(request);
      if ("response" in upgraded) {
        const { body, ...head } = await wholeResponse(upgraded.response, agent.id.class);
        return { reply: { kind: "response", ...head }, body };
      }
      const { socket } = upgraded;
      const connection = agent.sockets.make(info, tags(socket));
      const internals = Connection.internals(connection);
      internals.protocol = false;
      actor.sockets.meet(socket, connection);
      agent.sockets.join(connection);
      agent.emit("connect", { connectionId: connection.id });
      actor.sockets.connect(connection);
      return { reply: { kind: "connected", attachment: internals.attachment() } };
    });
  } catch (error) {
    if (agent.isLost) throw error;
    await agent.handleError(turn, error);
    const { body, ...head } = INTERNAL_ERROR;
    return { reply: { kind: "response", ...head }, body };
  }
}
