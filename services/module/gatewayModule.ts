/**
 * What the gateway takes from a module: the routes, the classes that only webhooks may reach, and
 * the module's own routing.
 */
import type { AgentStaticOptions } from "../../core/agent/AgentStaticOptions.ts";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import { signedClasses } from "../../core/webhook/WebhookRoute.ts";
import type { LoadedModule, ModuleEnv } from "./LoadedModule.ts";

export function gatewayModule(
  module: Pick<LoadedModule, "agents" | "webhooks" | "fetch" | "allowedOrigins">,
  env: ModuleEnv,
) {
  const { agents, webhooks, fetch, allowedOrigins } = module;
  const isOpen = (className: string): boolean =>
    (agents.get(className) as { readonly options?: AgentStaticOptions } | undefined)?.options
      ?.http === "open";
  return {
    routes: new RouteTable(webhooks),
    signed: new Set([...signedClasses(webhooks)].filter((name) => !isOpen(name))),
    allowedOrigins,
    env,
    ...(fetch === undefined ? {} : { fetch }),
  };
}
