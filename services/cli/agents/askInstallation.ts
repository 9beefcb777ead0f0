/**
 * Asks the hosts of an installation a question over all agents, for a command or the console.
 * Without a host there is no answer, and the caller reads its own view (`withView`).
 */
import { SHARD_KEYS } from "../../../core/lease/leaseKeys.ts";
import { askHosts, takesQuestions } from "../../../core/query/askHosts.ts";
import { QueryRefused, UnknownClass } from "../../../core/query/askView.ts";
import type { AgentsAnswer, AgentsQuestion } from "../../../schemas/AgentsQuestion.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { notReached } from "./notReached.ts";
import { refusedByHost } from "./refusedByHost.ts";
import { failed, notFound } from "../terminal/CliError.ts";

/**
 * There is no answer if the host was killed and its leases have not expired yet, or if the login
 * may not ask. If a host is just too busy to answer in time, the question only takes longer.
 */
const PROBE_MS = 1_000;

/**
 * Resolves to undefined if no host answers. Rejects with `CliError` if the question is refused or
 * gets no answer, and as the broker does.
 */
export async function askInstallation(
  ports: Pick<ReadPorts, "calls" | "leases" | "shards">,
  question: AgentsQuestion,
): Promise<AgentsAnswer | undefined> {
  const { calls, leases } = ports;
  if ((await leases.list(SHARD_KEYS)).length === 0) return undefined;
  if (!(await takesQuestions(calls, PROBE_MS))) return undefined;
  const call: typeof calls.call = async (id, ...asked) => {
    const answer = await calls.call(id, ...asked);
    const { reply } = answer;
    if (reply.kind !== "error" || reply.name === "QueryRefused") return answer;
    const what = `The view of all agents can't be asked ("agents query --local" asks no host)`;
    throw await refusedByHost(ports, id, { what, reply });
  };
  try {
    return await askHosts({ call }, question, "The view of all agents");
  } catch (error) {
    throw explained(error);
  }
}

/** Converts errors of a question to those of a command. */
export function explained(error: unknown): unknown {
  if (error instanceof UnknownClass) return notFound(error.message);
  if (error instanceof QueryRefused) return failed(error.message);
  return notReached(error, '"agents query --local" asks no host.');
}
