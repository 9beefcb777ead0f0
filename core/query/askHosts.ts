/**
 * Asks the hosts of an installation a question over all agents (`Queries`). All questions go to the
 * host that owns the shard of one address, so that one view serves code, commands and the console;
 * it is kept for some time after each question, and costs nothing without questions.
 */
import { agentId } from "../../schemas/Address.ts";
import type { AgentsAnswer, AgentsQuestion } from "../../schemas/AgentsQuestion.ts";
import { AgentUnreachable } from "../call/AgentUnreachable.ts";
import type { CallClient } from "../call/CallClient.ts";
import { decodeError } from "../call/remoteError.ts";
import { QueryRefused, UNKNOWN_CLASS, UnknownClass } from "./askView.ts";

/** A sensible statement takes less than a second for 100,000 agents. */
export const QUESTION_SECONDS_DEFAULT = 10;
/** Slow statements wait for one another: one that takes longer belongs in a view of its own. */
export const QUESTION_SECONDS_MAX = 60;
/** All rows of an answer are in memory at once. */
export const QUESTION_ROWS_MAX = 100_000;
/**
 * This address only selects the host that answers; no agent exists there. Logins that may not call
 * agents may call it (`deploy/nats/permissions.conf`), so hosts take nothing but questions there.
 */
export const QUESTIONS = agentId("$agents_query", "all");
/** Added to the statement's own time: the first question after a start reads all journals. */
const CATCH_UP_MS = 120_000;

/** Whether a host takes questions now. A login that may not ask finds none. */
export async function takesQuestions(
  calls: Pick<CallClient, "call">,
  deadlineMs: number,
): Promise<boolean> {
  try {
    await calls.call(QUESTIONS, { kind: "usage" }, { deadlineMs, repeatable: true });
    return true;
  } catch (error) {
    if (error instanceof AgentUnreachable) return false;
    throw error;
  }
}

/**
 * Rejects with `QueryRefused`, of which `UnknownClass` is one, with `AgentUnreachable`, and with
 * what the host failed with.
 */
export async function askHosts(
  calls: Pick<CallClient, "call">,
  question: AgentsQuestion,
  what: string,
): Promise<AgentsAnswer> {
  const { reply, body } = await calls.call(
    QUESTIONS,
    { kind: "query", ...question },
    { what, deadlineMs: CATCH_UP_MS + question.seconds * 1_000, repeatable: true },
  );
  if (reply.kind !== "error") return JSON.parse(new TextDecoder().decode(body)) as AgentsAnswer;
  const error = decodeError(reply);
  if (error.name !== "QueryRefused") throw error;
  throw error.cause === UNKNOWN_CLASS
    ? new UnknownClass(error.message)
    : new QueryRefused(error.message);
}
