/**
 * A fuzz target: one parser, or several related ones, behind one function of bytes. `fuzzTarget`
 * calls it. It throws if a promise is broken: an undeclared error, an accepted forgery, an answer
 * that never comes. A target that serves sockets opens its server once and sends each input over a
 * real connection.
 */
export interface FuzzTarget {
  readonly name: string;
  /** Inputs that it reads, from which others are made. */
  readonly seeds: ReadonlyArray<Uint8Array>;
  /** Words of its language. */
  readonly words?: ReadonlyArray<string>;
  readonly open: () => Promise<OpenTarget> | OpenTarget;
}

export interface OpenTarget {
  /** Rejects or throws when a promise did not hold. */
  readonly run: (input: Uint8Array) => Promise<void> | void;
  readonly close?: () => Promise<void>;
}

/** A target of one function without a server. */
export const pure = (run: OpenTarget["run"]) => (): OpenTarget => ({ run });

/** What a promise that did not hold is thrown as. */
export class Broken extends Error {
  override readonly name = "Broken";
}

/** The first byte says which of several parsers the rest is for. */
export const choose = (which: number, rest: Uint8Array | string): Uint8Array =>
  Buffer.concat([Buffer.from([which]), Buffer.from(rest as Uint8Array)]);

/** Parts of an input, separated by a byte that is in no text. */
export const SEPARATOR = 0;
export function partsOf(input: Uint8Array, count: number): Buffer[] {
  const parts: Buffer[] = [];
  let rest = Buffer.from(input.buffer, input.byteOffset, input.length);
  while (parts.length < count - 1) {
    const at = rest.indexOf(SEPARATOR);
    parts.push(at === -1 ? rest : rest.subarray(0, at));
    rest = at === -1 ? Buffer.alloc(0) : rest.subarray(at + 1);
  }
  return [...parts, rest];
}
export const joined = (...parts: ReadonlyArray<string | Uint8Array>): Uint8Array =>
  Buffer.concat(
    parts.flatMap((part, n) => [
      ...(n === 0 ? [] : [Buffer.from([SEPARATOR])]),
      Buffer.from(part as Uint8Array),
    ]),
  );
