/**
 * A durable stream as its agent's code writes and reads it: checks values, and passes them to
 * `Streams`, which keeps it. Made for each call of `this.stream`; it holds nothing but the key.
 */
import { checkOptions } from "../errors/checkOptions.ts";
import { assertWireValue } from "../call/wireValue.ts";
import { jsonText } from "../journal/jsonText.ts";
import { durationMs } from "../time/durationMs.ts";
import type {
  DurableStream,
  DurableStreamOptions,
  StreamResponseOptions,
} from "./DurableStream.ts";
import { CHUNK_SIZE_MAX, type Streams, type StreamSettings } from "./Streams.ts";
import { streamResponse } from "./streamResponse.ts";

const OPTIONS: ReadonlySet<string> = new Set<keyof DurableStreamOptions>(["keep", "sizeMax"]);
/** By then an answer has been copied to state or SQL, or the page was reloaded once more. */
const KEEP_DEFAULT = "1h";
/** A shorter time would be over before a retry of the stream's turn. */
const KEEP_MS_MIN = 1000;
/** 30 days. Data that is needed for longer is state, not an answer in progress. */
const KEEP_MS_MAX = 30 * 86_400_000;
/** A long answer of a model is a tenth of it. */
const SIZE_DEFAULT = 2 ** 20;
/** A reader from the start receives all of it, and the agent's database holds it. */
const SIZE_MAX = 2 ** 24;
/** It is in each frame to a client. */
const KEY_LENGTH_MAX = 256;

export class StoredStream<Chunk> implements DurableStream<Chunk> {
  /** The key that it was asked for by. */
  readonly key: string;
  readonly #streams: Streams;
  readonly #settings: StreamSettings;

  /** Made by the runtime only. */
  constructor(streams: Streams, key: string, options: DurableStreamOptions = {}) {
    // SQLite would store different unpaired surrogates as the same key.
    const isText = typeof key === "string" && key.isWellFormed();
    if (!isText || key === "" || key.length > KEY_LENGTH_MAX)
      throw new TypeError(
        `A stream needs a key of 1 to ${KEY_LENGTH_MAX} whole characters: stream("answer")`,
      );
    this.key = key;
    this.#streams = streams;
    this.#settings = settingsOf(key, options);
  }

  get status(): "absent" | "open" | "ended" | "failed" {
    return this.#streams.get(this.key)?.status ?? "absent";
  }
  get isOver(): boolean {
    return this.status === "ended" || this.status === "failed";
  }
  get sequence(): number {
    return this.#streams.get(this.key)?.sequence ?? 0;
  }
  get text(): string {
    return this.chunks()
      .filter((chunk) => typeof chunk === "string")
      .join("");
  }
  get result(): unknown {
    const text = this.#streams.get(this.key)?.result ?? null;
    return text === null ? undefined : JSON.parse(text);
  }
  get error(): string | undefined {
    return this.#streams.get(this.key)?.error ?? undefined;
  }

  chunks(after = 0): Chunk[] {
    return this.#streams.chunks(this.key, after) as Chunk[];
  }

  begin(): void {
    this.#streams.begin(this.key, this.#settings);
  }

  write(chunk: Chunk): number {
    return this.#streams.write(this.key, this.#json(chunk, "a chunk"), this.#settings);
  }

  end(result?: unknown): boolean {
    const text = result === undefined ? null : this.#json(result, "the result");
    if (text !== null && text.length > CHUNK_SIZE_MAX)
      throw new RangeError(
        `the result of the stream "${this.key}" is ${text.length} characters of JSON; the limit is ${CHUNK_SIZE_MAX}`,
      );
    return this.#streams.end(
      this.key,
      { status: "ended", result: text, error: null },
      this.#settings,
    );
  }

  fail(message: string): boolean {
    const error = String(message).slice(0, ERROR_LENGTH_MAX);
    return this.#streams.end(this.key, { status: "failed", result: null, error }, this.#settings);
  }

  remove(): boolean {
    return this.#streams.remove(this.key);
  }

  response(
    request: Pick<Request, "url" | "headers">,
    options: StreamResponseOptions = {},
  ): Promise<Response> {
    // Code without types may leave it out.
    if ((request as unknown) === undefined)
      throw new TypeError(
        `response of the stream "${this.key}": pass the request, which says where the reader is`,
      );
    return streamResponse(this.#streams, this.key, request, options);
  }

  #json(value: unknown, what: string): string {
    const of = `${what} of the stream "${this.key}"`;
    assertWireValue(value, of);
    const text = jsonText(value, of);
    if (text === undefined) throw new TypeError(`${of} must be JSON, not ${typeof value}`);
    return text;
  }
}

/** Characters of the message of a failure, which is for people. */
const ERROR_LENGTH_MAX = 1000;

function settingsOf(key: string, options: DurableStreamOptions): StreamSettings {
  checkOptions(`stream("${key}", …)`, options, OPTIONS);
  const { keep = KEEP_DEFAULT, sizeMax = SIZE_DEFAULT } = options;
  const keepMs = keepMsOf(keep, `keep of the stream "${key}"`);
  if (!Number.isInteger(sizeMax) || sizeMax < 1 || sizeMax > SIZE_MAX)
    throw new RangeError(
      `sizeMax of the stream "${key}" is ${JSON.stringify(sizeMax)}; it must be 1 to ${SIZE_MAX}`,
    );
  return { keepMs, sizeMax };
}

/** Milliseconds. Throws `TypeError` for an invalid span of time, `RangeError` past the bounds. */
export function keepMsOf(keep: number | string, what: string): number {
  const ms = durationMs(keep, what);
  if (ms >= KEEP_MS_MIN && ms <= KEEP_MS_MAX) return ms;
  throw new RangeError(`${what} is ${JSON.stringify(keep)}; it must be 1 second to 30 days`);
}
