/**
 * What a client of an MCP server is told when its request can't be handled: an HTTP status, and an
 * error object of the protocol with the codes that the SDK's transport uses.
 */
import type { RequestId } from "@modelcontextprotocol/sdk/types.js";

/** An id is a few characters, unless somebody wants to see what happens. */
const ID_SHOWN_CHARS = 100;
/** As many as the longest name of a host has. */
const ORIGIN_SHOWN_CHARS = 253;

/** 404: the specification's status for a session that is gone; its client begins another one. */
export const noSession = (): Response => refusal(404, -32001, "Session not found");

export const badRequest = (message: string): Response =>
  refusal(400, -32000, `Bad Request: ${message}`);

export const notJson = (): Response => refusal(400, -32700, "Parse error: the body is not JSON");

export const foreignPage = (origin: string): Response =>
  refusal(
    403,
    -32000,
    `Invalid Origin: ${origin.slice(0, ORIGIN_SHOWN_CHARS)}. List its hostname in allowedOriginHostnames of serve`,
  );

/** `allow`: the methods that there are. */
export const methodNotAllowed = (allow: string): Response =>
  new Response("Method Not Allowed", { status: 405, headers: { allow } });

/** Two requests of one id at the same time. */
export function idTaken(id: RequestId): Response {
  const shown = JSON.stringify(id).slice(0, ID_SHOWN_CHARS);
  return refusal(
    400,
    -32600,
    `Invalid Request: a request with the id ${shown} is running. Each request of a session needs its own id`,
  );
}

const refusal = (status: number, code: number, message: string): Response =>
  Response.json({ jsonrpc: "2.0", error: { code, message }, id: null }, { status });
