/** A mail that a test sends, and its SMTP reply. Used by `TestAgents`. */
import { checkOptions } from "../../core/errors/checkOptions.ts";
import { toBase64 } from "../../schemas/base64.ts";
import type { IncomingMessage, MailAnswer } from "../../core/mail/MailServer.ts";

/** A message that a test sends to an agent. */
export interface TestEmail {
  readonly from: string;
  readonly to: string | ReadonlyArray<string>;
  readonly subject?: string;
  readonly text?: string;
  /** Further headers, or replacements of the generated ones. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The whole message. Only `from` and `to` are used with it, as the envelope. */
  readonly raw?: string | Uint8Array;
}

/** The answer that SMTP would give. */
export interface EmailAnswer {
  /** 250, 550 or 451. */
  readonly code: number;
  readonly message: string;
}

const OPTIONS: ReadonlySet<string> = new Set<keyof TestEmail>(["from", "to", "subject", "text", "headers", "raw"]); // prettier-ignore

const CODES = { Accepted: 250, Rejected: 550, Later: 451 } as const;

export const answerOf = (answer: MailAnswer): EmailAnswer => ({
  code: CODES[answer._tag],
  message: answer._tag === "Accepted" ? "OK" : `${answer.code} ${answer.message}`,
});

/**
 * Builds the message. Message-ID and Date come from the test's seed and time. Throws `TypeError`
 * for a mail without `from` or `to`, and for an option that is not known.
 */
export function messageOf(
  given: TestEmail,
  time: { readonly nowMs: () => number; readonly id: () => string },
): IncomingMessage {
  checkOptions("email", given, OPTIONS);
  if (typeof given.from !== "string" || (typeof given.to !== "string" && !Array.isArray(given.to)))
    throw new TypeError("email: pass the addresses: email({ from: …, to: …, text: … })");
  const { from, raw, subject, text = "" } = given;
  const to = typeof given.to === "string" ? [given.to] : given.to;
  const headers = new Map<string, string>([
    ["From", from],
    ["To", to.join(", ")],
    ["Message-ID", `<${time.id()}@${from.slice(from.lastIndexOf("@") + 1)}>`],
    ["Date", new Date(time.nowMs()).toUTCString()],
    ...(subject === undefined ? [] : [["Subject", encodeWord(subject)] as const]),
    ["Content-Type", "text/plain; charset=utf-8"],
  ]);
  for (const [name, value] of Object.entries(given.headers ?? {})) {
    for (const known of headers.keys())
      if (known.toLowerCase() === name.toLowerCase()) headers.delete(known);
    headers.set(name, encodeWord(value));
  }
  const head = [...headers].map(([name, value]) => `${name}: ${value}\r\n`).join("");
  const bytes = typeof raw === "object" ? raw : encoder.encode(raw ?? `${head}\r\n${text}\r\n`);
  return { from, to, raw: bytes, peer: "127.0.0.1" };
}

const encoder = new TextEncoder();

/** Encodes text that is not ASCII as an encoded word (RFC 2047). */
const encodeWord = (text: string): string =>
  // oxlint-disable-next-line no-control-regex
  /^[\x00-\x7f]*$/.test(text) ? text : `=?UTF-8?B?${toBase64(encoder.encode(text))}?=`;
