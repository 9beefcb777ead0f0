/**
 * `env` as handlers and agents get it: secrets and variables by name, and one namespace per agent
 * class. A class is bound under its name, and also under its name in capitals (`REPO_AGENT`), which
 * modules written for the reference use; that one is not enumerable, so routes see each class once.
 */
import { AgentNamespace, type CallClientSource } from "../../core/agent/AgentNamespace.ts";

export function bindEnv(
  variables: Readonly<Record<string, unknown>>,
  agents: Iterable<string>,
  calls: CallClientSource,
): Readonly<Record<string, unknown>> {
  const env: Record<string, unknown> = { ...variables };
  for (const className of agents) {
    const namespace = new AgentNamespace(className, calls);
    env[className] = namespace;
    const capitals = className.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toUpperCase();
    if (!(capitals in env)) Object.defineProperty(env, capitals, { value: namespace });
  }
  return env;
}
