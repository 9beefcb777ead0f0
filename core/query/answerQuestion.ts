/** A host's answer to a question over all agents: the rows as JSON, or why there are none. */
import { BrokerUnavailable } from "../bus/Bus.ts";
import type { CallAnswer } from "../call/CallAnswer.ts";
import { errorReply } from "../call/remoteError.ts";
import type { LogShape } from "../telemetry/Log.ts";
import { QueryRefused } from "./askView.ts";
import type { QueriesShape } from "./Queries.ts";
import type { AgentsQuestion } from "../../schemas/AgentsQuestion.ts";

interface AnsweringHost {
  /** Absent in a host that runs an agent's past again. */
  readonly queries?: Pick<QueriesShape, "answer"> | undefined;
  readonly log: LogShape;
}

export async function answerQuestion(
  { queries, log }: AnsweringHost,
  question: AgentsQuestion,
): Promise<CallAnswer> {
  try {
    if (queries === undefined)
      throw new QueryRefused(
        "query: a re-run has only one agent. Put the query in a step, so that a re-run returns the recorded rows",
      );
    const body = await queries.answer(question);
    return { reply: { kind: "response", status: 200, headers: [] }, body };
  } catch (error) {
    if (error instanceof QueryRefused || error instanceof BrokerUnavailable)
      return { reply: errorReply(error) };
    log.error("a query over all agents could not be answered", { error: String(error) });
    return {
      reply: {
        kind: "error",
        name: "Error",
        message: "The query could not be answered: the host's log has the reason",
      },
    };
  }
}
