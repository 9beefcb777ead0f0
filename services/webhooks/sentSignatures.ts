/**
 * Takes a provider's signature header apart: the signatures in it, and the time where it lists one.
 * Fed by `verifierOf`. Of a header that came twice, joined by a proxy, nothing is taken.
 */
import type { SignatureScheme } from "./SignatureScheme.ts";

/** Providers send one signature per live secret of theirs; more are noise that costs a comparison each. */
const SIGNATURES_MAX = 16;
/** A check by a public key costs fifty digests. */
const ASYMMETRIC_MAX = 4;

export interface SentSignatures {
  readonly signatures: ReadonlyArray<string>;
  /** Those that a public key verifies, where the row has both kinds. */
  readonly asymmetric: ReadonlyArray<string>;
  /** When the row has the time in the list. */
  readonly timestamp?: string;
}

/** The signatures in the header, or why there are none. */
export function sentSignatures(scheme: SignatureScheme, header: string): SentSignatures | string {
  const { prefix, separator } = scheme;
  const items = itemsOf(scheme, header);
  if (separator !== undefined && items.some(isJoint)) return "the signature header is not one list";
  const after = (start: string) =>
    items.filter((item) => item.startsWith(start)).map((item) => item.slice(start.length));
  const signatures = after(prefix);
  const asymmetric = scheme.asymmetric === undefined ? [] : after(scheme.asymmetric.prefix);
  const count = signatures.length + asymmetric.length;
  if (count === 0) return `no signature that begins with "${prefix}"`;
  if (count > SIGNATURES_MAX || asymmetric.length > ASYMMETRIC_MAX) return `${count} signatures`;
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

/** What is between two headers that a proxy joined with ", "; no provider's own list has it. */
const isJoint = (item: string): boolean =>
  item === "" || item !== item.trim() || item.endsWith(",");
