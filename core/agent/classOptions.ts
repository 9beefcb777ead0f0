/** The `static options` of an agent's class; of one that replaced them with nothing, none. */
import type { AgentStaticOptions } from "./Agent.ts";

export const classOptions = (agent: object): AgentStaticOptions =>
  (agent.constructor as { readonly options?: AgentStaticOptions }).options ?? {};
