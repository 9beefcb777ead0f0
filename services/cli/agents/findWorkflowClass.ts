/**
 * The class of the workflows that an agent has started under one name. The name is that of a
 * binding: the class's own, the class's in capitals, or any that a configuration file gives it. The
 * binding's class is in the module alone, which commands don't have. Where no stored class has such
 * a name, the class is therefore that of an instance that the agent has started under it.
 */
import { rebuildAgent } from "../../../core/journal/rebuildAgent.ts";
import { runOf } from "../../../core/workflow/RecordedRun.ts";
import { isUnreadable } from "../../../schemas/Frame.ts";
import { camelCaseToKebabCase } from "../../../schemas/kebabCase.ts";
import type { AgentId } from "../../../schemas/Address.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { guessClass } from "./findAgent.ts";

/** `instances`: ids of instances of that name. Undefined: none of them is stored. */
export async function findWorkflowClass(
  ports: ReadPorts,
  starter: AgentId,
  workflowName: string,
  instances: ReadonlyArray<string>,
): Promise<string | undefined> {
  const { journal } = ports;
  const guessed =
    (await guessClass(journal, workflowName)) ??
    (await guessClass(journal, camelCaseToKebabCase(workflowName)));
  if (guessed !== undefined) return guessed;
  for (const instance of instances)
    for await (const { id } of journal.list(undefined, instance))
      if (await hasStarted(ports, starter, id)) return id.class;
  return undefined;
}

/** False also for an instance whose journal is damaged. */
async function hasStarted(ports: ReadPorts, starter: AgentId, id: AgentId): Promise<boolean> {
  try {
    const { database } = await rebuildAgent(id, ports);
    try {
      const [className, name] = runOf(database)?.agent ?? [];
      return className === starter.class && name === starter.name;
    } finally {
      database.close();
    }
  } catch (error) {
    if (isUnreadable(error)) return false;
    throw error;
  }
}
