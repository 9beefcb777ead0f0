/**
 * The response to a WebSocket upgrade that an agent is to take. It carries no socket: the gateway
 * keeps that, and connects it to the agent that this response names when the worker's `fetch`
 * returns it.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { HeaderPairs } from "../../schemas/Call.ts";

/** 4404 stands for 404: codes from 4000 on are free for applications. */
const CLOSE_OF_STATUS = 4000;
/** "Internal error": clients try again. */
const CLOSE_FAILED = 1011;

export interface UpgradeTarget {
  readonly id: AgentId;
  /** URL of the upgrade request as it was forwarded. */
  readonly url: string;
  readonly props: unknown;
  /** In place of the request's own, where an agent on the way changed them. */
  readonly headers?: HeaderPairs;
  /** The connection is readonly unless its agent decides otherwise. */
  readonly readonly?: true;
}

/**
 * The socket is accepted and closed at once: browsers hide the status of a refused upgrade, and
 * would ask again for ever.
 */
export interface UpgradeRefusal {
  readonly code: number;
  readonly reason: string;
}

const targets = new WeakMap<Response, UpgradeTarget>();
const refusals = new WeakMap<Response, UpgradeRefusal>();

/** A response with status 101, which the platform's own constructor refuses to make. */
export function upgradeResponse(target: UpgradeTarget): Response {
  const response = switchingProtocols();
  targets.set(response, target);
  return response;
}

/** Makes the connection readonly, where the response lets one through. */
export function readonlyUpgrade(response: Response): Response {
  const target = targets.get(response);
  if (target !== undefined) targets.set(response, { ...target, readonly: true });
  return response;
}

/**
 * The refusal of an upgrade to a sub-agent whose parent answered with `status`. The close code
 * contains a 4xx (`protocol.md` §2.5).
 */
export function refusedUpgrade(status: number): Response {
  const response = switchingProtocols();
  const isClients = status >= 400 && status < 500;
  refusals.set(response, {
    code: isClients ? CLOSE_OF_STATUS + status : CLOSE_FAILED,
    reason: `Sub-agent connection rejected (${status})`,
  });
  return response;
}

/** A response that only the gateway can act on. */
export const switchingProtocols = (): Response =>
  Object.defineProperty(new Response(null), "status", { value: 101 });

/** Undefined for any other response. */
export const upgradeTarget = (response: Response): UpgradeTarget | undefined =>
  targets.get(response);

export const upgradeRefusal = (response: Response): UpgradeRefusal | undefined =>
  refusals.get(response);

/**
 * Whether a request that a module or a stub receives is an upgrade. The server has decided before
 * whether the caller's request is a whole handshake (`core/http/requestHead`) and drops the header
 * of one that is not; a request made by hand needs no other header.
 */
export const isUpgrade = (request: Request): boolean =>
  request.method === "GET" && request.headers.get("upgrade")?.toLowerCase() === "websocket";

/** Whether it is one of the two above, which can't answer a request that is not an upgrade. */
export const isUpgradeResponse = (response: Response): boolean =>
  targets.has(response) || refusals.has(response);
