/**
 * The calls about an agent's WebSocket connections: one that connects, its messages, and its end.
 * Part of `handleCall`. Durable Objects have a connect sequence of their own (`connectObject`).
 *
 * 1. The messages of a socket are taken in the order of their numbers, each once. Its gateway
 *    pipelines them: after a missing one, none is taken. A message that was taken before is
 *    acknowledged again, when its writes are stored, and does not run again.
 */
import { ownBuffer } from "../../schemas/ownBuffer.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { changeFromClient } from "../agent/changeState.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import { checkTags, Connection } from "../connection/Connection.ts";
import { messageBytesOf } from "../connection/MessageBytes.ts";
import { ConnectionFailed, ReadonlyConnection } from "../errors/errors.ts";
import {
  FRAME_LEVELS_MAX,
  identityFrame,
  parseClientFrame,
  stateErrorFrame,
  streamFrame,
  type ClientFrame,
} from "../connection/protocol.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import { CLOSE_LAGGING, CLOSE_UNREADABLE, CLOSE_VANISHED } from "../http/closeFrame.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import type { Turn } from "../turn/Turn.ts";
import { connectObject, upgradeRequest } from "./connectObject.ts";
import { socketKey } from "../../schemas/bus/GatewayMessage.ts";
import { sinceOf } from "../stream/KeptMessages.ts";
import { hideInMessage } from "../redaction/FieldRedaction.ts";
import { causeOfConnect } from "../journal/causeOf.ts";
import { cancelRpc, handleRpcFrame } from "./handleRpc.ts";
import { messageOf } from "../errors/thrown.ts";

/** Refused with 429 where the agent has as many connections as it may. */
export async function connectSocket(
  agent: ActiveAgent,
  call: Call & { kind: "connect" },
): Promise<CallAnswer> {
  const { socket } = call;
  const answer = agent.sockets.admit(socket, agent.ceiling("connectionsMax"), async () =>
    agent.agent instanceof ObjectActor
      ? connectObject(agent, agent.agent, socket)
      : { reply: await connect(agent, call) },
  );
  return answer ?? TOO_MANY_SOCKETS;
}

/** Answered before any of the agent's code runs; the gateway refuses the upgrade. */
const TOO_MANY_SOCKETS: CallAnswer = {
  reply: {
    kind: "response",
    status: 429,
    headers: [
      ["content-type", "text/plain;charset=UTF-8"],
      ["retry-after", "10"],
    ],
  },
  body: "Too many connections to this agent",
};

/** The connect sequence of `protocol.md` §2.3, in its order. */
async function connect(
  agent: ActiveAgent,
  { socket, readonly }: Call & { kind: "connect" },
): Promise<CallReply> {
  const request = upgradeRequest(socket);
  const ctx = { request };
  let connection = agent.sockets.make(socket);
  const cause = causeOfConnect(socket.id, socket.url, agent.time.nowMs());
  const turn = agent.newTurn(cause, { connection, request });
  let joined = false;
  try {
    await agent.run(turn, async () => {
      const tags = checkTags(socket.id, await agent.agent.getConnectionTags(connection, ctx));
      connection = agent.sockets.make(socket, tags);
      turn.connection = connection;
      const flags = Connection.internals(connection);
      // What the base class's method returns.
      flags.readonly = readonly === true;
      flags.readonly = agent.agent.shouldConnectionBeReadonly(connection, ctx);
      flags.protocol = agent.agent.shouldSendProtocolMessages(connection, ctx);
      agent.sockets.join(connection);
      joined = true;
      if (flags.protocol) sendProtocolFrames(agent, connection);
      const since = sinceOf(socket.url);
      if (since !== undefined) agent.keeping.kept.sendMissed(connection, since);
      agent.emit("connect", { connectionId: connection.id });
      await agent.agent.onConnect(connection, ctx);
    });
  } catch (error) {
    if (agent.discarded) throw error;
    // Before it has joined, its rights are undecided: `onError` can't keep it open.
    if ((await agent.handleError(turn, error)) && joined) return connected(connection);
    agent.sockets.delete(socketKey(socket));
    agent.sockets.sendText(connection, JSON.stringify({ error: "Internal Server Error" }));
    return { ...connected(connection), close: SETUP_FAILED };
  }
  return connected(connection);
}

const SETUP_FAILED = { code: 1011, reason: "Uncaught exception during session setup" };

const connected = (connection: Connection): CallReply & { kind: "connected" } => ({
  kind: "connected",
  attachment: Connection.internals(connection).attachment(),
});

/**
 * Sends identity, state and MCP servers. Reading `state` here writes `initialState` if there is no
 * state yet; this socket receives it once.
 */
function sendProtocolFrames(agent: ActiveAgent, connection: Connection): void {
  void agent.agent.state;
  const state = agent.stateText;
  if (agent.options.sendIdentityOnConnect !== false)
    agent.sockets.sendText(connection, identityFrame(agent.id, state !== undefined));
  if (state !== undefined) agent.sockets.sendState(connection, state);
  agent.sockets.sendText(connection, agent.mcpServers.frame);
}

/** Rule 1. The handler is not awaited: handlers of one socket interleave at their awaits. */
export function takeMessage(
  agent: ActiveAgent,
  call: Call & { kind: "message" },
  body: Uint8Array,
): CallReply {
  const connection = agent.sockets.get(socketKey(call));
  if (connection === undefined) return { kind: "unknownSocket" };
  const { number } = call;
  if (number !== undefined) {
    const internals = Connection.internals(connection);
    const { next } = internals;
    if (next === undefined || number > next) return { kind: "unknownSocket" };
    if (number < next) return { kind: "taken", next: number + 1 };
    internals.next = number + 1;
  }
  begin(agent, connection, call.text, body);
  return { kind: "taken", ...(number === undefined ? {} : { next: number + 1 }) };
}

/** A message past the bound is dropped, and closes its socket. */
function begin(agent: ActiveAgent, connection: Connection, text: boolean, body: Uint8Array): void {
  const release = messageBytesOf(agent.time).take(connection, body.length);
  if (release === undefined) return connection.close(CLOSE_LAGGING, TOO_MANY_MESSAGES);
  const { atLeave } = agent.keeping;
  const end = (): void => void (atLeave.delete(end) && release());
  atLeave.add(end);
  void receive(agent, connection, text, body).finally(end);
}

const TOO_MANY_MESSAGES = "Too many messages are being handled";

/** Text of a frame, as a WebSocket decodes it: U+FEFF at its beginning is a character. */
const frameText = new TextDecoder("utf-8", { ignoreBOM: true });

async function receive(
  agent: ActiveAgent,
  connection: Connection,
  text: boolean,
  body: Uint8Array,
): Promise<void> {
  const message = text ? frameText.decode(body) : ownBuffer(body);
  const isPlain = typeof message !== "string" || agent.agent instanceof ObjectActor;
  const frame = isPlain ? ({ _tag: "Message" } as const) : parseClientFrame(message);
  if (frame._tag === "Cancel") return cancelRpc(agent, connection, frame.id);
  if (frame._tag === "TooDeep")
    return connection.close(CLOSE_UNREADABLE, `Nested more than ${FRAME_LEVELS_MAX} levels deep`);
  const kind = frame._tag === "Rpc" ? "rpc" : "message";
  const shown = text ? hideInMessage(message as string, agent.options.redact) : undefined;
  const cause = {
    kind,
    id: connection.id,
    time: agent.time.nowMs(),
    ...(shown ? { body: shown.text } : {}),
  } as const;
  const turn = agent.newTurn(cause, { connection, conceals: shown?.hidden });
  if (frame._tag === "Rpc") return handleRpcFrame(agent, turn, connection, frame);
  if (frame._tag === "Missed") return agent.keeping.kept.ask(connection, frame.since);
  if (frame._tag === "Stream") return readStream(agent, turn, connection, frame);
  try {
    await agent.run(turn, () =>
      frame._tag === "State"
        ? setStateFromClient(agent, frame.state, connection)
        : agent.agent.onMessage(connection, message),
    );
  } catch (error) {
    if (!agent.discarded) await agent.handleError(turn, error);
  }
}

/** A client starts, continues or stops reading a durable stream. */
async function readStream(
  agent: ActiveAgent,
  turn: Turn,
  connection: Connection,
  { id, key, since }: ClientFrame & { _tag: "Stream" },
): Promise<void> {
  if (key === undefined) return void agent.keeping.readers.cancel(connection, id);
  try {
    const may = await agent.run(turn, () =>
      agent.agent.shouldConnectionReadStream(connection, key),
    );
    if (may) agent.keeping.readers.add({ connection, id, key, since });
    else
      agent.sockets.sendText(connection, streamFrame({ id, key, error: "This stream is private" }));
  } catch (error) {
    if (agent.discarded) return;
    await agent.handleError(turn, error);
    agent.sockets.sendText(connection, streamFrame({ id, key, error: "Internal Server Error" }));
  }
}

/** The sender of a rejected update receives one of two fixed texts. The reason stays in the log. */
function setStateFromClient(agent: ActiveAgent, state: unknown, connection: Connection): void {
  try {
    changeFromClient(agent.agent, agent, connection, state);
  } catch (error) {
    const refused = error instanceof ReadonlyConnection;
    if (!refused)
      agent.log.warn("a client's state update was rejected", { error: messageOf(error) });
    agent.sockets.sendText(
      connection,
      stateErrorFrame(refused ? "Connection is readonly" : "State update rejected"),
    );
  }
}

export async function closeSocket(
  agent: ActiveAgent,
  call: Call & { kind: "close" },
): Promise<CallReply> {
  const connection = agent.sockets.get(socketKey(call));
  if (connection === undefined) return { kind: "unknownSocket" };
  agent.sockets.delete(socketKey(call));
  Connection.internals(connection).closed();
  agent.keeping.readers.drop(connection);
  const cause = { kind: "close" as const, id: connection.id, time: agent.time.nowMs() };
  const turn = agent.newTurn(cause, { connection });
  const { code, reason, wasClean } = call;
  agent.emit("disconnect", { connectionId: connection.id, code, reason });
  // The server closed it for its client's fault (too large, not UTF-8, too slow). A socket that
  // vanished is no error.
  if (!wasClean && code !== CLOSE_VANISHED)
    await agent.handleError(turn, new ConnectionFailed({ code, reason }), connection);
  try {
    await agent.run(turn, () => agent.agent.onClose(connection, code, reason, wasClean));
  } catch (error) {
    if (!agent.discarded) await agent.handleError(turn, error);
  }
  return { kind: "taken" };
}
