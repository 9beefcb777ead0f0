/** Replies that come home by signed headers (`protocol.md` §8): the signature is told now, and its age now. */
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

/** `X-Agent-Name`, `X-Agent-ID`, `X-Agent-Sig`, `X-Agent-Sig-Ts`. Rejects with `TypeError` for an empty value or a colon in a name. */
export const signAgentHeaders = (
  secret: string,
  agentName: string,
  agentId: string,
): Promise<Record<string, string>> => signAgent(secret, agentName, agentId, seconds(Date.now()));

export interface SecureReplyOptions {
  /** Seconds for which a signature is good. Default 30 days. */
  readonly maxAge?: number;
  /** Told of each message that is not routed, and why: most mail is no reply, and has no headers. */
  readonly onInvalidSignature?: (email: AgentEmail, reason: InvalidSignature) => void;
}

/** To the agent that signed the message that this one answers; null for anything else. */
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
