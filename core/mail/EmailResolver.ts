/**
 * Resolvers, which decide which agent a message is for (`protocol.md` §8): by address, all to one
 * agent, and the removed one by unsigned headers. The one by signed headers is in
 * `services/email/secureReply`, which knows the time.
 */
import type { AgentEmail } from "./AgentEmail.ts";

/** The agent that a message is for. */
export interface EmailTarget {
  /** A binding of `env`: the class's name, in its own, kebab or lower case. */
  readonly agentName: string;
  /** The agent's name. */
  readonly agentId: string;
  readonly _secureRouted?: boolean;
}

/** What a resolver resolves to. */
export type EmailResolverResult = EmailTarget | null;

/** Resolves to null for a message that it has no agent for. */
export type EmailResolver<Env = unknown> = (
  email: AgentEmail,
  env: Env,
) => Promise<EmailResolverResult>;

/** RFC 5321's limits of an address. A longer one is nobody's. */
const LOCAL_CHARS_MAX = 64;
const DOMAIN_CHARS_MAX = 253;

/**
 * `support+ticket-7@…` goes to agent `support`, id `ticket-7`; `ticket-7@…` goes to the default
 * agent.
 */
export const createAddressBasedEmailResolver =
  (defaultAgentName: string): EmailResolver =>
  async ({ to }) => {
    const parts = splitAddress(to);
    if (parts === undefined) return null;
    const plus = parts.local.indexOf("+");
    if (plus === -1) return { agentName: defaultAgentName, agentId: parts.local };
    const agentName = parts.local.slice(0, plus);
    const agentId = parts.local.slice(plus + 1);
    return agentName === "" || agentId === "" ? null : { agentName, agentId };
  };

/** Everything goes to one agent. */
export const createCatchAllEmailResolver =
  (agentName: string, agentId: string): EmailResolver =>
  async () => ({ agentName, agentId });

/** @deprecated Always throws, because any sender can choose a mail's headers. */
export function createHeaderBasedEmailResolver(): EmailResolver {
  throw new Error(
    "createHeaderBasedEmailResolver was removed: headers without a signature can be forged by any sender. Use createSecureReplyEmailResolver for replies, createAddressBasedEmailResolver for the rest",
  );
}

/** Returns undefined for an address that is invalid or exceeds RFC 5321's limits. */
export function splitAddress(
  address: string,
): { readonly local: string; readonly domain: string } | undefined {
  const at = address.lastIndexOf("@");
  const local = address.slice(0, at);
  const domain = address.slice(at + 1);
  if (at < 1 || domain === "" || /[\s@]/.test(local)) return undefined;
  if (local.length > LOCAL_CHARS_MAX || domain.length > DOMAIN_CHARS_MAX) return undefined;
  return { local, domain };
}
