/**
 * Calls about an agent's family: requests whose URL names a sub-agent of it, sub-agents that are asked for or gone, and its own
 * end by its parent. Parts of `handleCall`; the rest of it is `core/subAgent/SubAgents`.
 */
import type { Call, CallReply, HeaderPairs } from "../../schemas/Call.ts";
import { FAMILY } from "../agent/AgentSubAgents.ts";
import { encodeError } from "../call/remoteError.ts";
import {
  namesSubAgent,
  parseSubAgentPath,
  type SubAgentPathMatch,
} from "../subAgent/subAgentPaths.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { causeOfRequest } from "./causeOf.ts";
import type { CallAnswer } from "./handleCall.ts";
import { INTERNAL_ERROR } from "./Mailbox.ts";
import { interruptCalls } from "./runningCalls.ts";
import { makeRequest, responseBegun } from "./runWebhook.ts";

/** How the sockets of one that its parent deletes are closed (`protocol.md` §2.5). */
const DELETED = { code: 1001, reason: "Sub-agent deleted" };

type RequestCall = Call & { readonly kind: "fetch" | "gate" };

/** Where the request goes on, or what answers it; undefined: it is the agent's own. */
export async function passToSubAgent(
  agent: ActiveAgent,
  call: RequestCall,
  body: Uint8Array,
): Promise<CallAnswer | undefined> {
  if (!namesSubAgent(call.url)) return undefined;
  const { knownClasses } = agent.agent[FAMILY];
  const match = parseSubAgentPath(call.url, { knownClasses });
  if (match === null) return undefined;
  const { method, url } = call;
  const headers = call.headers.map(([name, value]): [string, string] => [name, value]);
  const request = makeRequest(method, url, { headers, body });
  const turn = agent.newTurn(causeOfRequest(call.id, method, url, agent.time.nowMs()), { request });
  try {
    return await agent.run(turn, async () => {
      const child = { className: match.childClass, name: match.childName };
      const instead = await agent.agent.onBeforeSubAgent(request, child);
      if (instead !== undefined && !(instead instanceof Request)) {
        const { rest, body: begun, ...head } = await responseBegun(instead);
        const more = rest === undefined ? {} : { stream: agent.streams.add(turn, rest) };
        return { reply: { kind: "response", ...head, ...more }, body: begun };
      }
      return forwarded(agent, match, { request, instead });
    });
  } catch (error) {
    if (agent.isLost) throw error;
    await agent.handleError(turn, error);
    const { body: text, ...head } = INTERNAL_ERROR;
    return { reply: { kind: "response", ...head }, body: text };
  }
}

async function forwarded(
  agent: ActiveAgent,
  { childClass, childName, remainingPath }: SubAgentPathMatch,
  { request, instead = request }: { readonly request: Request; readonly instead?: Request | void },
): Promise<CallAnswer> {
  const id = agent.agent[FAMILY].add(childClass, childName);
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
      if (op === "forget") agent.agent[FAMILY].forget(className, name);
      else agent.agent[FAMILY].add(className, name);
    });
    return { kind: "result" };
  } catch (error) {
    if (agent.isLost) throw error;
    return { kind: "error", ...encodeError(error) };
  }
}

export async function runEnd(agent: ActiveAgent): Promise<CallReply> {
  const turn = agent.newTurn({ kind: "rpc", type: "destroy", time: agent.time.nowMs() });
  agent.sockets.farewell = DELETED;
  await agent.run(turn, () => agent.agent[FAMILY].end(() => agent.destroy(), { isDeleted: true }));
  return { kind: "result" };
}

/** Of its parent. One that is not in memory has nothing to lose. */
export function abortFamily(agent: ActiveAgent | undefined, reason: string): CallAnswer {
  agent?.agent[FAMILY].abortAll(reason);
  agent?.abort(reason);
  if (agent !== undefined) interruptCalls(agent);
  return { reply: { kind: "taken" } };
}
