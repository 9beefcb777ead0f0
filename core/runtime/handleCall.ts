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
 */
import type { AgentCall, Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { AgentAborted, AgentDiscarded, CallInterrupted } from "../errors/errors.ts";
import type { AbortSource } from "../lazyFetch/AbortSource.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { answerRequest } from "./answerRequest.ts";
import { runRequestRpc, runRpc } from "./handleRpc.ts";
import { interruptible } from "./runningCalls.ts";
import { closeSocket, connectSocket, takeMessage } from "./socketCalls.ts";
import { passToSubAgent, runChildCall, runEnd } from "./subAgentCalls.ts";
import { runTargetCall } from "./targetCalls.ts";

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
      return connectSocket(agent, call);
    case "resume":
      agent.keeping.meet(call.socket);
      return { reply: { kind: "taken" } };
    case "message":
      return { reply: takeMessage(agent, call, body) };
    case "close":
      return { reply: await closeSocket(agent, call) };
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
