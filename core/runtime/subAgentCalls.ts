/**
 * Calls about an agent's family: requests whose URL names one of its sub-agents, sub-agents that
 * are added or forgotten, and the agent's own deletion by its parent. Part of `handleCall`;
 * `core/subAgent/SubAgents` has the rest.
 */
import { InvalidAddress } from "../../schemas/Address.ts";
import type { Call } from "../../schemas/bus/Call.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import {
  namesSubAgent,
  parseSubAgentPath,
  type SubAgentPathMatch,
} from "../namespace/subAgentPaths.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { answerRequest, type AskedRequest } from "./answerRequest.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import { failureReply } from "./targetCalls.ts";

/** Close code and reason of a deleted sub-agent's sockets (`protocol.md` §2.5). */
const DELETED = { code: 1001, reason: "Sub-agent deleted" };

/**
 * Returns where the request is forwarded, or its answer. Undefined: the agent handles it itself, as
 * a Durable Object always does.
 */
export async function passToSubAgent(
  agent: ActiveAgent,
  asked: AskedRequest,
): Promise<CallAnswer | undefined> {
  const { url } = asked.call;
  if (!namesSubAgent(url) || agent.agent instanceof ObjectActor) return undefined;
  const { knownClasses } = agent.apis.subAgents;
  const match = parseSubAgentPath(url, { knownClasses });
  if (match === null) return undefined;
  return answerRequest(agent, asked, async (request) => {
    const child = { className: match.childClass, name: match.childName };
    const instead = await agent.agent.onBeforeSubAgent(request, child);
    if (instead !== undefined && !(instead instanceof Request)) return instead;
    if (isReadonly(asked.call) && !agent.apis.subAgents.has(child.className, child.name))
      return new Response("Not found", { status: 404 });
    const max = agent.ceiling("subAgentsMax");
    if (!agent.apis.subAgents.hasRoomFor(child.className, child.name, max))
      return new Response("Too many sub-agents of this agent (subAgentsMax)", { status: 429 });
    try {
      return await forwarded(agent, match, { request, instead });
    } catch (error) {
      // The caller chose the name, so the answer says what is wrong with it.
      if (error instanceof InvalidAddress) return new Response(error.message, { status: 400 });
      throw error;
    }
  });
}

/**
 * Strangers may open readonly sockets to a signed class's agents (`Access`). Each name that they
 * invent would be stored in the journal of the agent above.
 */
const isReadonly = (call: AskedRequest["call"]): boolean =>
  call.kind === "gate" && call.readonly === true;

async function forwarded(
  agent: ActiveAgent,
  { childClass, childName, remainingPath }: SubAgentPathMatch,
  { request, instead = request }: { readonly request: Request; readonly instead?: Request | void },
): Promise<CallAnswer> {
  const id = agent.apis.subAgents.add(childClass, childName);
  const url = new URL(instead.url);
  url.pathname = remainingPath;
  const reply = { kind: "forward", agent: [id.class, id.name], url: url.href } as const;
  if (instead === request) return { reply };
  const { method } = instead;
  const headers: HeaderPairs = [...instead.headers];
  return {
    reply: { ...reply, method, headers },
    body: instead.body === null ? new Uint8Array(0) : new Uint8Array(await instead.arrayBuffer()),
  };
}

export async function runChildCall(
  agent: ActiveAgent,
  { op, className, name }: Call & { readonly kind: "child" },
): Promise<CallReply> {
  const turn = agent.newTurn({ kind: "rpc", type: "subAgent", time: agent.time.nowMs() });
  try {
    await agent.run(turn, () => {
      if (op === "forget") agent.apis.subAgents.forget(className, name);
      else agent.apis.subAgents.add(className, name);
    });
    return { kind: "result" };
  } catch (error) {
    return failureReply(agent, error);
  }
}

export async function runEnd(agent: ActiveAgent): Promise<CallReply> {
  const turn = agent.newTurn({ kind: "rpc", type: "destroy", time: agent.time.nowMs() });
  agent.sockets.farewell = DELETED;
  await agent.run(turn, () => agent.apis.subAgents.end(() => agent.destroy(), { isDeleted: true }));
  return { kind: "result" };
}

/** Aborts an agent and its sub-agents for its parent. Outside of memory it has nothing to lose. */
export function abortFamily(agent: ActiveAgent | undefined, reason: string): CallAnswer {
  agent?.apis.subAgents.abortAll(reason);
  agent?.abort(reason);
  return { reply: { kind: "taken" } };
}
