/**
 * Rebuilds an agent at a point of its history for a command that reads it, and closes the copy
 * afterwards. The running agent is not involved.
 */
import { HistoryTrimmed } from "../../../core/journal/HistoryTrimmed.ts";
import { rebuildAgent, type Rebuilt } from "../../../core/journal/rebuildAgent.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { describePoint, type Point } from "../options/pointOptions.ts";
import { notFound } from "../terminal/CliError.ts";
import { findAgent } from "./findAgent.ts";

export interface AgentAt {
  readonly className: string;
  readonly name: string;
  /** Undefined: now. */
  readonly at?: Point | undefined;
  /** Accepts a point before the first event: the agent is then empty, at sequence 0. */
  readonly orNone?: boolean;
}

/** Throws `CliError` if there is no such agent, or it had no event at that point. */
export async function withAgentAt<A>(
  ports: ReadPorts,
  wanted: AgentAt,
  look: (id: AgentId, agent: Rebuilt) => A | Promise<A>,
): Promise<A> {
  const point = wanted.at ?? {};
  const id = await findAgent(ports.journal, wanted.className, wanted.name);
  const agent = await rebuildAgent(id, { ...ports, ...point }).catch((error: unknown) => {
    if (error instanceof HistoryTrimmed) throw notFound(error.message);
    throw error;
  });
  try {
    if (agent.seq === 0 && wanted.orNone !== true)
      throw notFound(
        `${addressKey(id)} had no event${describePoint(point)}. "agents history" shows where it begins.`,
      );
    return await look(id, agent);
  } finally {
    agent.database.close();
  }
}
