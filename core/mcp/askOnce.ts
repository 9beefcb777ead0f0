/**
 * The provider of a connection that stays in use while its server's user is asked for consent.
 * Requests that need the same consent are refused meanwhile, and begin no authorization: each would
 * have a state of its own, and those of a user who is just consenting would be forgotten
 * (`OAuthProvider`, rule 1).
 */
import { McpRequestFailed } from "./McpClients.ts";
import type { McpServerState } from "./McpServerState.ts";
import type { OAuthProvider } from "./OAuthProvider.ts";
import { withMethods } from "./withMethods.ts";

/** `server`: its user is being asked while it is `authenticating`. */
export const askOnce = (
  auth: OAuthProvider,
  server: { readonly state: McpServerState },
): OAuthProvider =>
  withMethods(auth, {
    state: () => (server.state === "authenticating" ? Promise.reject(asked()) : auth.state()),
  });

const asked = (): McpRequestFailed =>
  new McpRequestFailed({ reason: "Unauthorized", message: "Unauthorized: its user is asked" });
