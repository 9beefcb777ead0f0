/**
 * The response to a WebSocket upgrade that an agent is to take. It carries no socket: the gateway keeps
 * that, and connects it to the agent that this response names when the worker's `fetch` returns it.
 */
import type { AgentId } from "../../schemas/Address.ts";

export interface UpgradeTarget {
  readonly id: AgentId;
  /** URL of the upgrade request as it was forwarded. */
  readonly url: string;
  readonly props: unknown;
}

const targets = new WeakMap<Response, UpgradeTarget>();

/** A response with status 101, which the platform's own constructor refuses to make. */
export function upgradeResponse(target: UpgradeTarget): Response {
  const response = new Response(null);
  Object.defineProperty(response, "status", { value: 101 });
  targets.set(response, target);
  return response;
}

/** Undefined for any other response. */
export const upgradeTarget = (response: Response): UpgradeTarget | undefined =>
  targets.get(response);

export const isUpgrade = (request: Request): boolean =>
  request.headers.get("upgrade")?.toLowerCase() === "websocket";
