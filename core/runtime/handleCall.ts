/**
 * Runs calls from gateways and other hosts as turns of the agent: HTTP requests, socket frames,
 * RPC, the current state. `AgentSlot` feeds it. Every reply passes the output gate.
 *
 * 1. A call is not stored. If the agent is discarded before the call begins, the reply is
 *    `notHere`, and the caller, which still has the request, asks the new owner. If it had begun,
 *    the reply is `late`, because its writes may be stored. If the agent was aborted, the reply is
 *    an error, because a repetition would abort it again; a call with a key is stored and is
 *    repeated to wait for its end. None waits for code of the discarded agent to end.
 * 2. A call that may have ended its host before does not run beside others of its kind
 *    (`Suspects`).
 * 3. The messages of a socket are taken in the order of their numbers, each once. Its gateway
 *    pipelines them: after a missing one, none is taken. A message that was taken before is
 *    acknowledged again, when its writes are stored, and does not run again.
 */
import { ownBuffer } from "../../schemas/ownBuffer.ts";
import type { AgentCall, Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { changeFromClient } from "../agent/changeState.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import { checkTags, Connection } from "../connection/Connection.ts";
import { messageBytesOf } from "../connection/MessageBytes.ts";
import {
  AgentAborted,
  AgentDiscarded,
  CallInterrupted,
  ConnectionFailed,
  ReadonlyConnection,
} from "../errors/errors.ts";
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
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
import { answerRequest } from "./answerRequest.ts";
import { connectObject } from "./connectObject.ts";
import { socketKey } from "./AgentSockets.ts";
import { sinceOf } from "../stream/KeptMessages.ts";
import { hideInMessage } from "../redaction/FieldRedaction.ts";
import { causeOfConnect } from "../journal/causeOf.ts";
import { cancelRpc, handleRpcFrame, runRequestRpc, runRpc } from "./handleRpc.ts";
import { interruptible } from "./runningCalls.ts";
import { makeRequest } from "../input/runWebhook.ts";
import { passToSubAgent, runChildCall, runEnd } from "./subAgentCalls.ts";
import { runTargetCall } from "./targetCalls.ts";
import { messageOf } from "../errors/thrown.ts";

/**
 * Runs a call. Resolves to its answer when that may leave. `abort` aborts the call's turn. Rejects
 * with `AgentDiscarded` (not begun), `CallInterrupted` or `AgentAborted`.
 */
export async function handleCall(
  agent: ActiveAgent,
  call: AgentCall,
  body: Uint8Array,
  abort?: AbortSource,
): Promise<CallAnswer> {
  await (agent.isBlocked ? interruptible(agent, agent.unblocked()) : agent.unblocked());
  if (agent.discarded) throw new AgentDiscarded();
  // A durable call only waits: the run behind it counts its own attempts.
  const isSuspect = call.suspect === true && call.kind !== "durable";
  const over = isSuspect ? agent.suspects.admitCall() : NOTHING;
  // Nothing was done, and the caller retries.
  if (over === undefined) return { reply: { kind: "notHere" } }; // rule 2
  try {
    const runs = dispatch(agent, call, body, abort);
    const answer = await (mayWait(call) ? interruptible(agent, runs) : runs);
    await gate(agent);
    return answer;
  } catch (error) {
    if (!agent.discarded) throw error;
    throw agent.aborted === undefined || call.kind === "durable"
      ? new CallInterrupted()
      : new AgentAborted({ reason: agent.aborted });
  } finally {
    over();
  }
}

const NOTHING = (): void => undefined;

/** Calls that run users' code, which may take any time, or wait for another agent. */
const mayWait = ({ kind }: AgentCall): boolean =>
  kind !== "message" && kind !== "state" && kind !== "resume" && kind !== "drop";

/** Resolves when everything that the answer may reveal is stored. Rejects if it is lost. */
function gate(agent: ActiveAgent): Promise<void> {
  // A destroyed agent has nothing left to store.
  if (agent.destroyed || (agent.committer.settled && !agent.discarded)) return Promise.resolve();
  return agent.committer.stored();
}

async function dispatch(
  agent: ActiveAgent,
  call: AgentCall,
  body: Uint8Array,
  abort: AbortSource | undefined,
): Promise<CallAnswer> {
  switch (call.kind) {
    case "fetch": {
      const { to } = call;
      if (to !== undefined) return runRequestRpc(agent, { ...call, to }, { body, abort });
      const elsewhere = await passToSubAgent(agent, { call, body, abort });
      if (elsewhere !== undefined) return elsewhere;
      return answerRequest(
        agent,
        { call, body, abort },
        async (request) =>
          (await agent.mcpServers.intercept(request)) ?? (await agent.agent.onRequest(request)),
      );
    }
    case "gate":
      return (await passToSubAgent(agent, { call, body, abort })) ?? { reply: { kind: "taken" } };
    case "child":
      return { reply: await runChildCall(agent, call) };
    case "end":
      return { reply: await runEnd(agent) };
    case "pull":
      return pull(agent, call);
    case "connect":
      return (
        agent.sockets.admit(call.socket, agent.ceiling("connectionsMax"), async () =>
          agent.agent instanceof ObjectActor
            ? connectObject(agent, agent.agent, call.socket)
            : { reply: await connect(agent, call) },
        ) ?? tooManySockets()
      );
    case "resume": {
      agent.keeping.meet(call.socket);
      return { reply: { kind: "taken" } };
    }
    case "message":
      return { reply: takeMessage(agent, call, body) };
    case "close":
      return { reply: await close(agent, call) };
    case "rpc":
    case "durable":
      return { reply: await runRpc(agent, call, abort) };
    case "target":
      return { reply: await runTargetCall(agent, call, abort) };
    case "drop":
      agent.keeping.lent.end(call.target);
      return { reply: { kind: "taken" } };
    case "state":
      return { reply: currentState(agent) };
    default:
      // A newer gateway's call: an error, so that its caller does not wait for the deadline.
      throw new Error(
        `this host knows no call "${String((call satisfies never as Call).kind)}": does this host run an older release?`,
      );
  }
}

/** Rule 3. The handler is not awaited: handlers of one socket interleave at their awaits. */
function takeMessage(
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

function currentState({ image: { seq, timeMs, state } }: ActiveAgent): CallReply {
  const stored = state === undefined ? {} : { state: JSON.parse(state) as unknown };
  return { kind: "state", seq, time: timeMs, ...stored };
}

async function pull(agent: ActiveAgent, call: Call & { kind: "pull" }): Promise<CallAnswer> {
  if (call.cancel) {
    agent.keeping.bodies.cancel(call.stream);
    return { reply: { kind: "taken" } };
  }
  const piece = await agent.keeping.bodies.pull(call.stream, call.piece);
  if (piece === undefined) return { reply: { kind: "piece", end: "gone" } };
  const { bytes, end } = piece;
  return { reply: { kind: "piece", ...(end === undefined ? {} : { end }) }, body: bytes };
}

/** The connect sequence of `protocol.md` §2.3, in its order. */
async function connect(
  agent: ActiveAgent,
  { socket, readonly }: Call & { kind: "connect" },
): Promise<CallReply> {
  const request = makeRequest("GET", socket.url, {
    headers: socket.headers.map(([name, value]): [string, string] => [name, value]),
    body: new Uint8Array(0),
  });
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

/** Answered before any of the agent's code runs; the gateway refuses the upgrade. */
const tooManySockets = (): CallAnswer => ({
  reply: {
    kind: "response",
    status: 429,
    headers: [
      ["content-type", "text/plain;charset=UTF-8"],
      ["retry-after", "10"],
    ],
  },
  body: "Too many connections to this agent",
});

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

async function close(agent: ActiveAgent, call: Call & { kind: "close" }): Promise<CallReply> {
  const connection = agent.sockets.get(socketKey(call));
  if (connection === undefined) return { kind: "unknownSocket" };
  agent.sockets.delete(socketKey(call));
  Connection.internals(connection).closed();
  agent.keeping.readers.drop(connection);
  const cause = { kind: "close" as const, id: connection.id, time: agent.time.nowMs() };
  const turn = agent.newTurn(cause, { connection });
  const { code, reason } = call;
  agent.emit("disconnect", { connectionId: connection.id, code, reason });
  // The server closed it for its client's fault (too large, not UTF-8, too slow). A socket that
  // vanished is no error.
  if (!call.wasClean && code !== CLOSE_VANISHED)
    await agent.handleError(turn, new ConnectionFailed({ code, reason }), connection);
  try {
    await agent.run(turn, () =>
      agent.agent.onClose(connection, call.code, call.reason, call.wasClean),
    );
  } catch (error) {
    if (!agent.discarded) await agent.handleError(turn, error);
  }
  return { kind: "taken" };
}
