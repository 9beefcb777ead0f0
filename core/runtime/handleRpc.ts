/**
 * RPC: a client's `rpc` frame (only `@callable()` methods), and a stub's call from a worker's
 * `fetch` or another agent (any public method of the subclass). Error texts are those of
 * `protocol.md` §2.4.
 */
import type { Call } from "../../schemas/bus/Call.ts";
import { RPC_LOST } from "../../schemas/rpcLost.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { Agent } from "../agent/Agent.ts";
import { AgentHooks } from "../agent/AgentHooks.ts";
import type { PublicOfBase } from "../namespace/AgentStub.ts";
import { callableMetadata } from "../agent/callable.ts";
import { Connection } from "../connection/Connection.ts";
import { ReadonlyConnection } from "../errors/errors.ts";
import { methodOn, type Method } from "../agent/methods.ts";
import { isNotable, LONG_CALL_MS } from "./lostCalls.ts";
import { rpcFrame, type ClientFrame, type RpcReply } from "../connection/protocol.ts";
import { StreamingResponse } from "../agent/StreamingResponse.ts";
import { SparseMap } from "../collections/sparse.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
import { beginResponse } from "../http/takeResponse.ts";
import { makeRequest } from "../input/runWebhook.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import type { DurableCall } from "../call/durableCall.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { respond } from "./answerRequest.ts";
import { pieceBytes } from "./ResponseStreams.ts";
import { failureReply, resultReply, structuredArguments } from "./targetCalls.ts";
import type { Turn } from "../turn/Turn.ts";
import { messageOf } from "../errors/thrown.ts";

/**
 * Resolves to the result of a durable method, once stored (`CallLane`). Rejects as the lane does.
 * The call outlives its turn and its caller.
 */
async function askDurable(agent: ActiveAgent, turn: Turn, call: DurableCall): Promise<unknown> {
  // The turn does not wait for the call, which begins when the turn's commit is stored.
  const asked = { ...call, depth: turn.depth };
  const { answer } = await agent.run(turn, () => ({ answer: agent.lanes.calls.ask(asked) }));
  return answer;
}

/**
 * The running calls of a connection, by id, as functions that cancel them. A streaming call runs
 * until its stream is ended.
 */
const running = new WeakMap<Connection, SparseMap<string, () => void>>();

const CANCELLED = "The client has cancelled the call";

/**
 * The client no longer waits for a call: the signal of its turn aborts, and its stream, also a
 * durable one, ends for this client. Does nothing if the call is over.
 */
export function cancelRpc(agent: ActiveAgent, connection: Connection, id: string): void {
  running.get(connection)?.get(id)?.();
  if (agent.keeping.readers.cancel(connection, id))
    agent.sockets.sendText(connection, rpcFrame(id, { success: false, error: CANCELLED }));
}

/** The calls that nobody will answer: they do not run here, and no durable stream answers them. */
function lostOf(connection: Connection, ids: ReadonlyArray<unknown>): ReadonlyArray<unknown> {
  const calls = running.get(connection);
  const { reads } = Connection.internals(connection);
  return ids.filter((id) => typeof id !== "string" || !(calls?.has(id) === true || reads.has(id)));
}

/** Returns what ends the call. */
function runs(
  agent: ActiveAgent,
  connection: Connection,
  { id, key }: Pick<ClientFrame & { _tag: "Rpc" }, "id" | "key">,
  cancel: () => void,
): () => void {
  let calls = running.get(connection);
  if (calls === undefined) running.set(connection, (calls = new SparseMap()));
  const of = calls.set(id, cancel);
  const noted = Connection.internals(connection).calls;
  const forget = agent.time.after(LONG_CALL_MS, () => {
    if (key !== undefined || agent.isLost || !isNotable(id, noted)) return;
    noted.add(id);
    agent.sockets.attach(connection);
  });
  return () => {
    of.delete(id);
    forget();
    if (noted.delete(id) && !agent.isLost) agent.sockets.attach(connection);
  };
}

/** A call of a client, while it runs. */
interface ClientCall extends Pick<ClientFrame & { _tag: "Rpc" }, "method" | "args" | "key"> {
  readonly connection: Connection;
  readonly reply: (what: RpcReply) => void;
  readonly stream: StreamingResponse;
  /** The method answers through its stream only. Set once the method is found. */
  streams: boolean;
}

/**
 * Replies go to the calling connection only; calls of one connection run side by side. The `rpc`
 * event of a streaming call is emitted before it runs, that of any other call after it succeeded.
 * Each failure emits `rpc:error`.
 */
export async function handleRpcFrame(
  agent: ActiveAgent,
  turn: Turn,
  connection: Connection,
  frame: ClientFrame & { _tag: "Rpc" },
): Promise<void> {
  const reply = (what: RpcReply): void =>
    agent.sockets.sendText(connection, rpcFrame(frame.id, what));
  const { method: name, key } = frame;
  if (name === RPC_LOST)
    return reply({ success: true, result: lostOf(connection, frame.args), done: true });
  const stream = new StreamingResponse({
    reply: (what) => {
      reply(what);
      if (!what.success || what.done) over();
    },
    isOpen: () => connection.readyState === Connection.OPEN,
    read: (of) => agent.keeping.readers.add({ connection, id: frame.id, key: of, asCall: true }),
  });
  // The client repeats a pending call.
  if (key !== undefined && running.get(connection)?.has(frame.id) === true) return;
  const call = { ...frame, connection, reply, stream, streams: false };
  const over = runs(agent, connection, frame, () => {
    // First, so that what listens to the signal finds the stream closed.
    if (call.streams) stream.error(CANCELLED);
    turn.abort.fire(new DOMException(CANCELLED, "AbortError"));
  });
  let isLeftOpen = false;
  try {
    await runMethod(agent, turn, call);
    // If the method never ends its stream, the call stays open.
    isLeftOpen = call.streams && !stream.isClosed;
  } catch (error) {
    if (agent.isLost) return;
    const message = error instanceof Error ? messageOf(error) : "Unknown error occurred";
    agent.emit("rpc:error", { method: name, error: turn.conceal(message) });
    stream.error(message);
  } finally {
    if (!isLeftOpen) over();
  }
}

async function runMethod(agent: ActiveAgent, turn: Turn, call: ClientCall): Promise<void> {
  const { method: name, key, stream } = call;
  const method = methodOn(agent.agent, name);
  if (method === undefined) throw new Error(`Method ${name} does not exist`);
  const metadata = callableMetadata(method);
  if (metadata === undefined) throw new Error(`Method ${name} is not callable`);
  if (metadata.durable === true || key !== undefined) {
    // The call could write, which this connection may not.
    if (Connection.internals(call.connection).readonly) throw new ReadonlyConnection();
    const asked = { key: key ?? agent.time.id(), method: name, args: call.args };
    const result = await askDurable(agent, turn, asked);
    call.reply({ success: true, result, done: true });
    return agent.emit("rpc", { method: name });
  }
  call.streams = metadata.streaming === true;
  if (call.streams) agent.emit("rpc", { method: name, streaming: true });
  const args = call.streams ? [stream, ...call.args] : call.args;
  const result = await agent.run(turn, () => method.apply(agent.agent, args));
  if (call.streams) return;
  // As in `resultReply`.
  agent.inTurn(turn, () => call.reply({ success: true, result, done: true }));
  agent.emit("rpc", { method: name });
}

/**
 * A stub's call. Methods of the base class, hooks, names that start with `_` and anything that is
 * not a method are refused. A method of the subclass may have the name of one of the base class.
 * `abort` aborts the call's turn.
 */
export async function runRpc(
  agent: ActiveAgent,
  call: Call & { kind: "rpc" | "durable" },
  abort: AbortSource | undefined,
): Promise<CallReply> {
  try {
    const method = stubMethod(agent.agent, call.method);
    const cause = { kind: "rpc", type: call.method, time: agent.time.nowMs() } as const;
    const turn = agent.newTurn(cause, { abort, depth: call.depth });
    const isDurable = callableMetadata(method)?.durable === true || call.kind === "durable";
    const key = call.kind === "durable" ? call.key : agent.time.id();
    const { structured = false } = call;
    if (isDurable && structured)
      throw new TypeError(
        `${call.method} is durable, so its arguments are stored, which is not possible for an RpcTarget: pass data`,
      );
    const args = (): unknown[] =>
      structured ? structuredArguments(agent, call.args) : [...call.args];
    const value = isDurable
      ? await askDurable(agent, turn, { ...call, key })
      : await agent.run(turn, () => method.apply(agent.agent, args()));
    return resultReply(agent, turn, value, { what: `the result of ${call.method}`, structured });
  } catch (error) {
    return failureReply(agent, error);
  }
}

/**
 * A stub's call whose only argument is a request. A response that the method returns is sent as
 * one, and may continue as a stream.
 */
export async function runRequestRpc(
  agent: ActiveAgent,
  call: Call & { kind: "fetch"; to: string },
  { body, abort }: { readonly body: Uint8Array; readonly abort: AbortSource | undefined },
): Promise<CallAnswer> {
  try {
    const method = stubMethod(agent.agent, call.to);
    if (callableMetadata(method)?.durable === true)
      throw new TypeError(
        `${call.to} is durable, so its arguments are stored, which is not possible for a Request: pass its URL and text`,
      );
    const cause = { kind: "rpc", type: call.to, time: agent.time.nowMs() } as const;
    const turn = agent.newTurn(cause, { abort, depth: call.depth });
    const headers = call.headers as [string, string][];
    const request = makeRequest(call.method, call.url, { headers, body, abort: turn.abort });
    const what = `the result of ${call.to}`;
    const made = await agent.run(turn, async () => {
      const value = await method.call(agent.agent, request);
      if (!(value instanceof Response)) return { value };
      return beginResponse(value, what, pieceBytes(call.piece));
    });
    if ("rest" in made) return respond(agent, turn, made);
    const structured = agent.agent instanceof ObjectActor;
    return { reply: resultReply(agent, turn, made.value, { what, structured }) };
  } catch (error) {
    return { reply: failureReply(agent, error) };
  }
}

function stubMethod(agent: Agent<unknown>, name: string): Method {
  if (agent instanceof ObjectActor) {
    const method = agent.remoteMethod(name);
    if (method === undefined) throw new TypeError(`Method ${name} does not exist`);
    return method;
  }
  const method = methodOn(agent, name);
  if (method === undefined || name.startsWith("_"))
    throw new Error(`Method ${name} does not exist`);
  const isOfBase = method === methodOn(BASE, name) && !PUBLIC_OF_BASE.has(name);
  if (isOfBase || name in AgentHooks.prototype) throw new Error(`Method ${name} is not callable`);
  return method;
}

/** An agent without methods of its own, for look-ups. */
const BASE = Object.create(Agent.prototype) as object;

const PUBLIC_OF_BASE: ReadonlySet<string> = new Set<PublicOfBase>([
  "setState",
  "broadcast",
  "destroy",
  "getApprovals",
  "decideApproval",
]);
