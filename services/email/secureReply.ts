/**
 * Routes replies to the agent that sent the original, by signed headers (`protocol.md` §8). Signs
 * with the current time, and measures a signature's age against the current time.
 */
import { ReceivedEmail, type AgentEmail } from "../../core/mail/AgentEmail.ts";
import {
  checkAgentSignature,
  signAgent,
  SIGNATURE_AGE_SECONDS_DEFAULT,
  type InvalidSignature,
} from "../../core/mail/agentSignature.ts";
import type { EmailResolver } from "../../core/mail/EmailResolver.ts";

const MS_PER_SECOND = 1000;
const seconds = (ms: number): number => Math.floor(ms / MS_PER_SECOND);

/**
 * The headers `X-Agent-Name`, `X-Agent-ID`, `X-Agent-Sig` and `X-Agent-Sig-Ts`, by name. Rejects
 * with `TypeError` for an empty value and for a name with a colon.
 */
export const signAgentHeaders = (
  secret: string,
  agentName: string,
  agentId: string,
): Promise<Record<string, string>> => signAgent(secret, agentName, agentId, seconds(Date.now()));

/** Options of `createSecureReplyEmailResolver`. */
export interface SecureReplyOptions {
  /** Seconds for which a signature is valid. Default 2,592,000 (30 days). */
  readonly maxAge?: number;
  /**
   * Called with each message that is not routed, and the reason. Most mail is not a reply: it has
   * no headers.
   */
  readonly onInvalidSignature?: (email: AgentEmail, reason: InvalidSignature) => void;
}

/**
 * Resolves a reply to the agent that signed the original message, and other mail to null. Throws
 * `TypeError` without a secret.
 */
export function createSecureReplyEmailResolver(
  secret: string,
  { maxAge = SIGNATURE_AGE_SECONDS_DEFAULT, onInvalidSignature }: SecureReplyOptions = {},
): EmailResolver {
  if (typeof secret !== "string" || secret === "")
    throw new TypeError("createSecureReplyEmailResolver: the secret is missing");
  return async (email) => {
    const times = { nowSeconds: seconds(ReceivedEmail.timeMs(email) ?? Date.now()), maxAge };
    const check = await checkAgentSignature(secret, email.headers, times);
    if (check._tag === "Valid") {
      const { agentName, agentId } = check;
      return { agentName, agentId, _secureRouted: true };
    }
    onInvalidSignature?.(email, check.reason);
    return null;
  };
}
