/**
 * Runs a caller's HTTP request as a turn of the agent: for the agent itself (`handleCall`), and for
 * the hook before its sub-agents (`subAgentCalls`).
 */
import type { Call } from "../../schemas/bus/Call.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";
import { beginResponse, type ResponseBegun } from "../http/takeResponse.ts";
import { causeOfRequest } from "../journal/causeOf.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import { errorReply } from "../call/remoteError.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import { AbortSource } from "../lazyFetch/AbortSource.ts";
import { INTERNAL_ERROR, tooMuchWritten } from "../input/fixedAnswers.ts";
import { pieceBytes } from "./ResponseStreams.ts";
import type { Turn } from "../turn/Turn.ts";
import { makeRequest } from "../input/runWebhook.ts";

export interface AskedRequest {
  readonly call: RequestCall;
  readonly body: Uint8Array;
  /** Fires when the caller leaves. Default: never. */
  readonly abort?: AbortSource | undefined;
}

type RequestCall = Call & { readonly kind: "fetch" | "gate" };

/**
 * Answers with what `f` returns: an answer, or a response, which may continue as a stream. Answers
 * a plain 500 if `f` fails; for a Durable Object, the error, with which the stub's `fetch` rejects.
 */
export async function answerRequest(
  agent: ActiveAgent,
  { call, body, abort = new AbortSource() }: AskedRequest,
  f: (request: Request) => Promise<Response | CallAnswer>,
): Promise<CallAnswer> {
  const { id, method, url } = call;
  const headers = call.headers as [string, string][];
  const request = makeRequest(method, url, { headers, body, abort });
  const cause = causeOfRequest(id, method, url, agent.time.nowMs());
  const turn = agent.newTurn(cause, { request, abort, depth: call.depth });
  try {
    const made = await agent.run(turn, async () => {
      const given = await f(request);
      return isAnswer(given) ? given : beginResponse(given, agent.id.class, pieceBytes(call.piece));
    });
    return isAnswer(made) ? made : respond(agent, turn, made);
  } catch (error) {
    if (agent.isLost) throw error;
    // Whether or not `onError` suppressed the error.
    await agent.handleError(turn, error);
    const refused = tooMuchWritten(error);
    if (refused === undefined && agent.agent instanceof ObjectActor)
      return { reply: errorReply(error) };
    const { body: text, ...head } = refused ?? INTERNAL_ERROR;
    return { reply: { kind: "response", ...head }, body: text };
  }
}

/** The answer for a response that has begun. Its caller pulls the rest of the body. */
export function respond(agent: ActiveAgent, turn: Turn, made: ResponseBegun): CallAnswer {
  const { status, headers, body, rest } = made;
  const more = rest === undefined ? {} : { stream: agent.keeping.bodies.add(turn, rest) };
  return { reply: { kind: "response", status, headers, ...more }, body };
}

/** Users' code may return anything as a response: `beginResponse` reports what is wrong with it. */
const isAnswer = (given: object): given is CallAnswer =>
  typeof given === "object" && given !== null && "reply" in given;
