/**
 * The headers by which a reply reaches its agent (`protocol.md` §8): the agent that wrote, the
 * time, and an HMAC over both. Pure except for WebCrypto; the caller passes the time.
 */
import { fromBase64, toBase64 } from "../../schemas/base64.ts";
import { decodeWords, headerText } from "./mailHead.ts";

export const AGENT_NAME = "X-Agent-Name";
export const AGENT_ID = "X-Agent-ID";
const SIGNATURE = "X-Agent-Sig";
const TIMESTAMP = "X-Agent-Sig-Ts";

/** 30 days, so that people have time to answer. */
export const SIGNATURE_AGE_SECONDS_DEFAULT = 30 * 24 * 60 * 60;
/** A signature from further in the future is refused. */
const SKEW_SECONDS_MAX = 5 * 60;

/** Why the headers of a signed reply are not accepted. */
export type InvalidSignature = "missing_headers" | "expired" | "invalid" | "malformed_timestamp";

type SignatureCheck =
  | { readonly _tag: "Valid"; readonly agentName: string; readonly agentId: string }
  | { readonly _tag: "Invalid"; readonly reason: InvalidSignature };

/**
 * Returns the four headers. Throws `TypeError` for an empty value, and for a name or id with a
 * colon, which separates the parts of the signed text.
 */
export async function signAgent(
  secret: string,
  agentName: string,
  agentId: string,
  nowSeconds: number,
): Promise<Record<string, string>> {
  if (secret === "") throw new TypeError("signAgentHeaders: the secret is empty");
  if (agentName === "") throw new TypeError("signAgentHeaders: the agent's name is empty");
  if (agentId === "") throw new TypeError("signAgentHeaders: the agent's id is empty");
  if (agentName.includes(":") || agentId.includes(":"))
    throw new TypeError("signAgentHeaders: name and id must not contain a colon");
  const timestamp = String(nowSeconds);
  const key = await keyOf(secret, "sign");
  const mac = await crypto.subtle.sign("HMAC", key, signedText(agentName, agentId, timestamp));
  return {
    [AGENT_NAME]: agentName,
    [AGENT_ID]: agentId,
    [SIGNATURE]: toBase64(new Uint8Array(mac)),
    [TIMESTAMP]: timestamp,
  };
}

export async function checkAgentSignature(
  secret: string,
  headers: Headers,
  { nowSeconds, maxAge }: { readonly nowSeconds: number; readonly maxAge: number },
): Promise<SignatureCheck> {
  // A name that is not ASCII is returned by mail programs as encoded words.
  const read = (name: string): string => decodeWords(headerText(headers, name) ?? "").trim();
  const [agentName, agentId] = [read(AGENT_NAME), read(AGENT_ID)];
  const [signature, timestamp] = [read(SIGNATURE), read(TIMESTAMP)];
  const invalid = (reason: InvalidSignature): SignatureCheck => ({ _tag: "Invalid", reason });
  if (agentName === "" || agentId === "" || signature === "" || timestamp === "")
    return invalid("missing_headers");
  if (!/^\d{1,15}$/.test(timestamp)) return invalid("malformed_timestamp");
  const age = nowSeconds - Number(timestamp);
  if (age < -SKEW_SECONDS_MAX) return invalid("invalid");
  if (age > maxAge) return invalid("expired");
  if (agentName.includes(":")) return invalid("invalid");
  const key = await keyOf(secret, "verify");
  // Compares in constant time.
  const valid = await crypto.subtle.verify(
    "HMAC",
    key,
    fromBase64(signature) as Uint8Array<ArrayBuffer>,
    signedText(agentName, agentId, timestamp),
  );
  return valid ? { _tag: "Valid", agentName, agentId } : invalid("invalid");
}

const encoder = new TextEncoder();

const signedText = (agentName: string, agentId: string, timestamp: string) =>
  encoder.encode(`${agentName}:${agentId}:${timestamp}`);

const keyOf = (secret: string, usage: "sign" | "verify") =>
  crypto.subtle.importKey("raw", encoder.encode(secret), { name: "HMAC", hash: "SHA-256" }, false, [
    usage,
  ]);
