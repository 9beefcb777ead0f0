/**
 * The check for a WebSocket implementation. PartySocket only logs that there is none, at its first
 * attempt to connect; `AgentClient` checks before, in its constructor and in `reconnect()`.
 */
import type { PartySocketOptions } from "partysocket";

/** Throws `TypeError` if the runtime has no WebSocket and the options have none. */
export function requireWebSocket(options: Pick<PartySocketOptions, "WebSocket">): void {
  if (options.WebSocket === undefined && typeof globalThis.WebSocket === "undefined")
    throw new TypeError(
      "AgentClient: this runtime has no global WebSocket (Node has one from version 22): pass an " +
        "implementation as the option WebSocket, such as the one of the package ws",
    );
}
