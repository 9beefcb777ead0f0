/**
 * Parses the head of a raw message: its end, its headers, and encoded words (RFC 5322, RFC 2047).
 * Pure and lenient: SMTP may deliver anything, and a line that is not a header is skipped.
 */

const CR = 0x0d;
const LF = 0x0a;
/** The most bytes of a head that are parsed; real heads have a few KiB. The rest is stored. */
const HEAD_BYTES_MAX = 256 * 1024;
/** The most lines that become headers. More are an attack on code that loops over headers. */
const HEADERS_MAX = 2_000;

/** The offset of the body, after the first empty line; the message's length if there is none. */
export function bodyOffset(raw: Uint8Array): number {
  for (let at = 0; at < raw.length; at++) {
    if (raw[at] !== LF) continue;
    if (raw[at + 1] === LF) return at + 2;
    if (raw[at + 1] === CR && raw[at + 2] === LF) return at + 3;
  }
  return raw.length;
}

/** Every header, unfolded. `Headers` joins those of one name. Other bytes are read as Latin-1. */
export function readHeaders(raw: Uint8Array): Headers {
  const end = Math.min(bodyOffset(raw), HEAD_BYTES_MAX);
  const text = latin1(raw.subarray(0, end));
  const headers = new Headers();
  const lines = text.replace(/\r?\n(?=[ \t])/g, "").split(/\r?\n/);
  for (const line of lines.slice(0, HEADERS_MAX)) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).trimEnd();
    if (colon <= 0 || !HEADER_NAME.test(name)) continue;
    headers.append(
      name,
      line
        .slice(colon + 1)
        .replace(CONTROL, " ")
        .trim(),
    );
  }
  return headers;
}

/**
 * The text of a header that `readHeaders` has returned; null: there is none. Bytes past ASCII are
 * UTF-8 (RFC 6532), or Latin-1 where they can't be. Encoded words stay.
 */
export function headerText(headers: Headers, name: string): string | null {
  const value = headers.get(name);
  // oxlint-disable-next-line no-control-regex
  if (value === null || !/[\x80-\xff]/.test(value) || /[^\0-\xff]/.test(value)) return value;
  try {
    const bytes = Uint8Array.from(value, (c) => c.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return value;
  }
}

/** A header's name: HTTP's token, as `Headers` accepts it. Mail allows a little more. */
export const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// oxlint-disable-next-line no-control-regex
const CONTROL = /[\0\r\n]/g;

/** A character for each byte. `TextDecoder`'s "latin1" is Windows-1252, which `Headers` refuses. */
function latin1(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return text;
}

const WORD = /=\?([^?\s]+)\?([bqBQ])\?([^?]*)\?=/g;

/** Decodes encoded words; one of an unknown charset stays as it is. */
export const decodeWords = (text: string): string =>
  text
    .replace(/(\?=)\s+(?==\?[^?\s]+\?[bqBQ]\?)/g, "$1")
    .replace(WORD, (word, charset: string, encoding: string, content: string) => {
      try {
        const bytes = encoding.toLowerCase() === "b" ? base64(content) : quoted(content);
        return new TextDecoder(charset.split("*")[0]).decode(bytes);
      } catch {
        return word;
      }
    });

const base64 = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

const quoted = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(
    text
      .replaceAll("_", " ")
      .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    (c) => c.charCodeAt(0) & 0xff,
  );
