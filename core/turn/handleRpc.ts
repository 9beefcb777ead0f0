/**
 * RPC: a client's `rpc` frame (only `@callable()` methods), and a stub's call from a worker's `fetch`
 * or another agent (any public method of the subclass). Error texts are those of `protocol.md` §2.4.
 */
import type { Call, CallReply } from "../../schemas/Call.ts";
import { Agent } from "../agent/Agent.ts";
import { callableMetadata } from "../agent/callable.ts";
import type { Connection } from "../agent/Connection.ts";
import { rpcFrame, type ClientFrame } from "../agent/protocol.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import type { Turn } from "./Turn.ts";

type Method = (...args: unknown[]) => unknown;

export async function handleRpcFrame(
  agent: ActiveAgent,
  turn: Turn,
  connection: Connection,
  frame: ClientFrame & { _tag: "Rpc" },
): Promise<void> {
  let text: string;
  try {
    const method = (agent.agent as unknown as Record<string, unknown>)[frame.method];
    if (typeof method !== "function") throw new Error(`Method ${frame.method} does not exist`);
    if (callableMetadata(method) === undefined)
      throw new Error(`Method ${frame.method} is not callable`);
    const result = await agent.run(turn, () => (method as Method).apply(agent.agent, frame.args));
    text = rpcFrame(frame.id, { success: true, result, done: true });
  } catch (error) {
    if (agent.discarded) return;
    const message = error instanceof Error ? error.message : "Unknown error occurred";
    text = rpcFrame(frame.id, { success: false, error: message });
  }
  agent.sendText(connection, text);
}

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
