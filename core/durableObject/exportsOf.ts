/** `ctx.exports` of a Durable Object: the module's classes by their names, as `env` binds them. */
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import { WorkflowBinding } from "../workflow/WorkflowBinding.ts";

/** Other names of a binding are left out; so are entrypoints, which no binding has. */
export const exportsOf = (
  env: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries(env).filter(
      ([name, value]) =>
        (value instanceof AgentNamespace || value instanceof WorkflowBinding) &&
        value.className === name,
    ),
  );
