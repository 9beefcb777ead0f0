/**
 * Requests and answers of `this.fetch` as the journal keeps them: whole, without credentials
 * (`core/redaction`), bodies as text where they are UTF-8.
 */
import { fromBase64 } from "../../schemas/base64.ts";
import type { StepRequest } from "../../schemas/JournalEvent.ts";
import { BodyBuffer } from "../http/BodyBuffer.ts";
import { storedBody } from "../journal/causeOf.ts";
import { REDACTION } from "../redaction/Redaction.ts";
import { StepTooLarge } from "./stepErrors.ts";
import { hashOf, STEP_NAME_CHARS_MAX } from "./stepKey.ts";

/** The largest body, of request or response. Its base64 in JSON is within what a step returns. */
const FETCH_BYTES_MAX = 8 * 1024 * 1024;
/** `Response` refuses a body with these. */
const BODILESS: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);
/** The highest status that `Response` takes. Servers answer with others, too, such as 999. */
const STATUS_MAX = 599;
const BOUNDARY = /boundary="?([^";]+)"?/;

export interface StoredAnswer {
  readonly status: number;
  readonly statusText?: string;
  /** The URL that redirects led to, if it differs. */
  readonly url?: string;
  readonly headers: ReadonlyArray<readonly [string, string]>;
  readonly body?: string;
  readonly bodyBase64?: string;
}

/** `POST api.example.com/charges`: no query, which may change from run to run, or hold a secret. */
export function stepNameOf({ method, url }: Request): string {
  const { host, pathname } = new URL(url);
  const name = `${method} ${host}${pathname}`;
  if (name.length <= STEP_NAME_CHARS_MAX) return name;
  const hash = hashOf(name);
  return `${name.slice(0, STEP_NAME_CHARS_MAX - hash.length - 1)}~${hash}`;
}

/** Rejects with `StepTooLarge`. */
export async function storeAnswer(
  name: string,
  asked: Request,
  response: Response,
): Promise<StoredAnswer> {
  const body = await readBody(name, "answer", response.body);
  return {
    status: response.status,
    ...(response.statusText === "" ? {} : { statusText: response.statusText }),
    ...(response.url === "" || response.url === asked.url
      ? {}
      : { url: REDACTION.url(response.url) }),
    headers: [...response.headers].filter(([header]) => !REDACTION.hidesHeader(header)),
    ...storedBody(body),
  };
}

export function answerOf(
  { status, statusText = "", url, headers, ...stored }: StoredAnswer,
  asked: string,
): Response {
  const body = BODILESS.has(status) ? null : bytesOf(stored);
  const pairs = headers.map(([name, value]): [string, string] => [name, value]);
  const isOutside = status > STATUS_MAX;
  const made = { status: isOutside ? STATUS_MAX : status, statusText, headers: pairs };
  // The constructor takes none of these.
  return Object.defineProperties(new Response(body, made), {
    url: { value: url ?? asked },
    ...(isOutside && { status: { value: status } }),
  });
}

/** `body` was read before. Each request makes up a new multipart boundary. */
export function storeRequest({ method, url, headers }: Request, body: Uint8Array): StepRequest {
  const boundary = BOUNDARY.exec(headers.get("content-type") ?? "")?.[1];
  const { body: text, bodyBase64 } = storedBody(body);
  const plain = (value: string): string =>
    boundary === undefined ? value : value.replaceAll(boundary, "boundary");
  const names = Object.fromEntries([...headers].map(([name, value]) => [name, plain(value)]));
  return {
    method,
    url: REDACTION.url(url),
    headers: REDACTION.record(names),
    ...(text === undefined ? {} : { body: plain(text) }),
    ...(bodyBase64 === undefined ? {} : { bodyBase64 }),
  };
}

/** The whole of a stream. Rejects with `StepTooLarge`, and as the stream does. */
export async function readBody(
  name: string,
  what: "answer" | "request",
  body: ReadableStream<Uint8Array> | null,
): Promise<Uint8Array<ArrayBuffer>> {
  const buffer = new BodyBuffer(FETCH_BYTES_MAX);
  const reader = body?.getReader();
  for (;;) {
    const piece = await reader?.read();
    if (piece === undefined || piece.done) return buffer.take() as Uint8Array<ArrayBuffer>;
    if (buffer.add(piece.value)) continue;
    await reader!.cancel().catch(() => undefined);
    throw new StepTooLarge({
      step: name,
      what: `the body of the ${what} exceeds ${FETCH_BYTES_MAX} bytes: use fetch in a step, and return the part that you need`,
    });
  }
}

function bytesOf({ body, bodyBase64 }: Pick<StoredAnswer, "body" | "bodyBase64">): BodyInit {
  if (bodyBase64 === undefined) return body ?? "";
  return fromBase64(bodyBase64) as Uint8Array<ArrayBuffer>;
}
