/**
 * How far a reader of all changes has read (`changes`), as opaque text that it passes to continue:
 * base64url of `[1, seqs]`, or in a catch-up `[1, seqs, to, agent, seq]`.
 */
import { fromBase64Url, toBase64Url } from "../../schemas/base64.ts";

/** Version of the text. */
const VERSION = 1; // the first

export interface ChangePosition {
  /** For each stream group: everything up to this sequence was read. */
  readonly seqs: ReadonlyArray<number>;
  /**
   * Everything between `seqs` and `to` is read agent by agent, in the order of their keys; `agent`
   * and `seq` came last. Absent: changes are read as they are stored.
   */
  readonly catchUp?: {
    readonly to: ReadonlyArray<number>;
    readonly agent: string;
    readonly seq: number;
  };
}

export function encodePosition({ seqs, catchUp }: ChangePosition): string {
  const parts = catchUp === undefined ? [] : [catchUp.to, catchUp.agent, catchUp.seq];
  const bytes = new TextEncoder().encode(JSON.stringify([VERSION, seqs, ...parts]));
  return toBase64Url(bytes);
}

/** Undefined for text that is no position, or one of a later release. */
export function decodePosition(text: string): ChangePosition | undefined {
  try {
    const json = new TextDecoder().decode(fromBase64Url(text));
    const [version, seqs, to, agent, seq] = JSON.parse(json) as unknown[];
    if (version !== VERSION || !isSeqs(seqs)) return undefined;
    if (to === undefined) return { seqs };
    if (!isSeqs(to) || to.length !== seqs.length) return undefined;
    if (typeof agent !== "string" || typeof seq !== "number") return undefined;
    return { seqs, catchUp: { to, agent, seq } };
  } catch {
    return undefined;
  }
}

const isSeqs = (value: unknown): value is ReadonlyArray<number> =>
  Array.isArray(value) && value.every((seq) => Number.isSafeInteger(seq) && seq >= 0);
