/**
 * `routeAgentRequest` as the code of modules imports it. The `env(c)` of Hono's adapter, which the
 * middleware of `hono-agents` passes on, is `process.env` in Node, and has no bindings: the
 * module's own `env` is meant.
 */
import {
  routeAgentRequest as route,
  type RouteOptions,
} from "../../core/namespace/routeAgentRequest.ts";
import { env as own } from "./bindPlatform.ts";

/**
 * Resolves to the response of the agent that the URL names, to 400 for an unknown agent class, and
 * to null if the path has another prefix or too few segments. Rejects with `AgentUnreachable` and
 * `InvalidAddress`, and with `TypeError` for a misspelt option. `process.env` stands for the
 * module's `env`.
 */
export const routeAgentRequest = (
  request: Request,
  env: unknown,
  options?: RouteOptions,
): Promise<Response | null> => route(request, env === process.env ? own : env, options);
