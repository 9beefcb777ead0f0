/**
 * The parts of a module that the gateway uses: the routes, the classes that only webhooks may
 * reach, and the module's own routing, which its static files precede.
 */
import type { AgentStaticOptions } from "../../core/agent/AgentStaticOptions.ts";
import { RouteTable } from "../../core/webhook/RouteTable.ts";
import { signedClasses } from "../../core/webhook/WebhookRoute.ts";
import { Assets } from "../wrangler/Assets.ts";
import { isUpgrade } from "../../core/socket/upgradeRequest.ts";
import { installSocketGlobals } from "../platform/socketGlobals.ts";
import type { LoadedModule, ModuleEnv } from "./LoadedModule.ts";

type ModuleFetch = NonNullable<LoadedModule["fetch"]>;

export function gatewayModule(
  module: Pick<LoadedModule, "agents" | "webhooks" | "fetch" | "allowedOrigins" | "wrangler">,
  env: ModuleEnv,
) {
  const { agents, webhooks, allowedOrigins } = module;
  const fetch = fetchOf(module);
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

/** The module's `fetch`, or the default routing, after the files of `assets`. */
function fetchOf({
  fetch: given,
  wrangler,
}: Pick<LoadedModule, "fetch" | "wrangler">): LoadedModule["fetch"] {
  const fetch = given === undefined ? undefined : withSockets(given);
  if (wrangler?.assets === undefined) return fetch;
  const assets = new Assets(wrangler.assets);
  return async (request, env, context) =>
    (await assets.before(request)) ??
    (fetch === undefined
      ? ((await context.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 }))
      : fetch(request, env, context));
}

/** Middleware of frameworks copies responses, also one that connects a socket. */
const withSockets =
  (fetch: ModuleFetch): ModuleFetch =>
  (request, env, context) => {
    if (isUpgrade(request)) installSocketGlobals();
    return fetch(request, env, context);
  };
