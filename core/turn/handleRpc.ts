/**
 * RPC: a client's `rpc` frame (only `@callable()` methods), and a stub's call from a worker's `fetch`
 * or another agent (any public method of the subclass). Error texts are those of `protocol.md` §2.4.
 */
import type { Call, CallReply } from "../../schemas/Call.ts";
import { Agent } from "../agent/Agent.ts";
import { callableMetadata } from "../agent/callable.ts";
import type { Connection } from "../agent/Connection.ts";
import { rpcFrame, type ClientFrame, type RpcReply } from "../agent/protocol.ts";
import { StreamingResponse } from "../agent/StreamingResponse.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import type { Turn } from "./Turn.ts";

type Method = (...args: unknown[]) => unknown;

/** Replies go to the calling connection only; calls of one connection run side by side. */
export async function handleRpcFrame(
  agent: ActiveAgent,
  turn: Turn,
  connection: Connection,
  frame: ClientFrame & { _tag: "Rpc" },
): Promise<void> {
  const reply = (what: RpcReply): void =>
    agent.sockets.sendText(connection, rpcFrame(frame.id, what));
  const stream = new StreamingResponse({ reply, isOpen: () => connection.readyState === OPEN });
  try {
    const method = (agent.agent as unknown as Record<string, unknown>)[frame.method];
    if (typeof method !== "function") throw new Error(`Method ${frame.method} does not exist`);
    const metadata = callableMetadata(method);
    if (metadata === undefined) throw new Error(`Method ${frame.method} is not callable`);
    const streams = metadata.streaming === true;
    const args = streams ? [stream, ...frame.args] : frame.args;
    const result = await agent.run(turn, () => (method as Method).apply(agent.agent, args));
    // A streaming method answers by its stream alone: one that never ends it leaves the call open.
    if (!streams) reply({ success: true, result, done: true });
  } catch (error) {
    if (agent.discarded) return;
    stream.error(error instanceof Error ? error.message : "Unknown error occurred");
  }
}

/** `readyState` of a connection whose socket is open. */
const OPEN = 1;

/** A stub's call. What the base class has, names that start with `_` and what is no method are refused. */
export async function runRpc(agent: ActiveAgent, call: Call & { kind: "rpc" }): Promise<CallReply> {
  try {
    const method = publicMethod(agent.agent, call.method);
    const turn = agent.newTurn({ kind: "rpc", type: call.method, time: agent.time.nowMs() });
    const value = await agent.run(turn, () => method.apply(agent.agent, [...call.args]));
    // Checked here, where the agent's author can see it, and not as a failure of the bus.
    JSON.stringify(value);
    return { kind: "result", ...(value === undefined ? {} : { value }) };
  } catch (error) {
    if (agent.discarded) throw error;
    return error instanceof Error
      ? { kind: "error", name: error.name, message: error.message }
      : { kind: "error", name: "Error", message: String(error) };
  }
}

function publicMethod(agent: Agent<unknown>, name: string): Method {
  const method = (agent as unknown as Record<string, unknown>)[name];
  if (typeof method !== "function" || name.startsWith("_") || name === "constructor")
    throw new Error(`Method ${name} does not exist`);
  if (name in Agent.prototype && !PUBLIC_OF_BASE.has(name))
    throw new Error(`Method ${name} is not callable`);
  return method as Method;
}

/** Methods of the base class that a stub may call: those that make sense from outside. */
const PUBLIC_OF_BASE: ReadonlySet<string> = new Set(["setState", "broadcast"]);
