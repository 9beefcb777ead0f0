/**
 * The answer to a webhook whose agent has as many stored inputs waiting as it may: it is not
 * stored, and its sender may come again. From then on, inputs are stored no faster than they are
 * done.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { CallAnswer } from "../../core/call/CallAnswer.ts";
import { ceilingOf } from "../../core/turn/Ceilings.ts";
import type { HostServices } from "./HostServices.ts";

/** Seconds: by then a flooded agent has done some. */
const RETRY_AFTER_S = "10";

const FULL: CallAnswer = {
  reply: {
    kind: "done",
    status: 429,
    headers: [
      ["content-type", "text/plain;charset=UTF-8"],
      ["retry-after", RETRY_AFTER_S],
    ],
    refused: "too many inputs of its agent wait (waitingMax)",
  },
  body: "Too Many Requests: this agent has too many waiting inputs (waitingMax)",
};

/** `FULL`, or undefined while one more may wait. */
export function refuseInput(
  { module, config, metrics }: Pick<HostServices, "module" | "config" | "metrics">,
  id: AgentId,
  waiting: number,
): CallAnswer | undefined {
  const options = module().agents.get(id.class)?.options;
  if (waiting < ceilingOf("waitingMax", options, config.ceilings)) return undefined;
  metrics.ofClass(id.class).refusedInput();
  return FULL;
}
