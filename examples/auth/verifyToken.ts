/**
 * Checks a JSON Web Token (HS256) as a gateway needs it: signature, expiry, audience. For tokens of
 * an identity provider, which signs with keys that it publishes (RS256, ES256), take a library such
 * as `jose`.
 */
import { createHmac, timingSafeEqual } from "node:crypto";

export interface Claims {
  /** Who it is. */
  readonly sub: string;
  readonly aud: string;
  /** Seconds since 1970. */
  readonly exp: number;
}

export interface TokenRules {
  readonly secret: string;
  readonly audience: string;
  readonly nowMs: number;
}

/** Undefined for a foreign or expired token. Never throws. */
export function verifyToken(token: string, rules: TokenRules): Claims | undefined {
  const [head, claims, signature, ...more] = token.split(".");
  if (head === undefined || claims === undefined || signature === undefined || more.length > 0)
    return undefined;
  // The server chooses the algorithm, not the token: "none" and public keys as secrets are refused.
  if (decode<{ alg?: unknown }>(head)?.alg !== "HS256") return undefined;
  const expected = createHmac("sha256", rules.secret).update(`${head}.${claims}`).digest();
  const given = Buffer.from(signature, "base64url");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
  const read = decode<Partial<Claims>>(claims);
  if (typeof read?.sub !== "string" || read.sub === "") return undefined;
  if (typeof read.exp !== "number" || read.exp * 1000 <= rules.nowMs) return undefined;
  if (read.aud !== rules.audience) return undefined;
  return { sub: read.sub, aud: read.aud, exp: read.exp };
}

function decode<A>(part: string): A | undefined {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString()) as A;
  } catch {
    return undefined;
  }
}
