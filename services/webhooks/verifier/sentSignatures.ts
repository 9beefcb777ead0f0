/**
 * Parses a provider's signature header into its signatures, and its time where it lists one. Called
 * by `verifierOf`. A header that a proxy joined from two is refused.
 */
import type { SignatureScheme } from "./SignatureScheme.ts";

/** Providers send one signature per live secret. More would be a comparison each for nothing. */
const SIGNATURES_MAX = 16;
/** Verifying with a public key costs as much as fifty digests. */
const ASYMMETRIC_MAX = 4;

/** What one signature header contains, without prefixes. */
export interface SentSignatures {
  readonly signatures: ReadonlyArray<string>;
  /** Signatures that a public key verifies, where the row has both kinds. */
  readonly asymmetric: ReadonlyArray<string>;
  /** Present where the row has the time in the list. */
  readonly timestamp?: string;
}

/** The signatures in the header, or why none is usable. */
export function sentSignatures(scheme: SignatureScheme, header: string): SentSignatures | string {
  const { prefix, separator } = scheme;
  const items = itemsOf(scheme, header);
  if (separator !== undefined && items.some(isJoint))
    return "the signature header is not one list: an empty item, or two headers joined by a proxy";
  const after = (start: string) =>
    items.filter((item) => item.startsWith(start)).map((item) => item.slice(start.length));
  const signatures = after(prefix);
  const asymmetric = scheme.asymmetric === undefined ? [] : after(scheme.asymmetric.prefix);
  const count = signatures.length + asymmetric.length;
  if (count === 0) return `no signature that begins with "${prefix}"`;
  if (count > SIGNATURES_MAX) return `${count} signatures in one header; at most ${SIGNATURES_MAX}`;
  if (asymmetric.length > ASYMMETRIC_MAX)
    return `${asymmetric.length} public-key signatures in one header; at most ${ASYMMETRIC_MAX}`;
  const timePrefix = scheme.timestamp?.item;
  if (timePrefix === undefined) return { signatures, asymmetric };
  const times = after(timePrefix);
  return times.length === 1
    ? { signatures, asymmetric, timestamp: times[0]! }
    : `${times.length} timestamps in the signature header`;
}

function itemsOf({ separator, spaced }: SignatureScheme, header: string): ReadonlyArray<string> {
  if (separator === undefined) return [header];
  const items = header.split(separator);
  return spaced === true ? items.map((item, i) => (i === 0 ? item : item.trimStart())) : items;
}

/** Whether an item has the ", " of two headers that a proxy joined. No provider's list has it. */
const isJoint = (item: string): boolean =>
  item === "" || item !== item.trim() || item.endsWith(",");
