/**
 * `this.stream(key)`: an answer that is kept while it is made. Its writer is a turn of the agent, which
 * goes on from what is there when it runs again; its readers come back to where they were, on any
 * host. `Streams` keeps it.
 */
import { durationMs } from "../workflow/stepConfig.ts";
import { CHUNK_SIZE_MAX, type Streams, type StreamSettings } from "./Streams.ts";
import { streamResponse, type StreamResponseOptions } from "./streamResponse.ts";

/** Options of `this.stream`. They count for the stream that is begun under the key. */
export interface DurableStreamOptions {
  /**
   * How long it is kept after its last write, in milliseconds or as text (`"1h"`, `"2 days"`): 1
   * second to 30 days. Default 1 hour.
   */
  readonly keep?: number | string;
  /**
   * The most that all its chunks may take, in characters of JSON: up to 16,777,216. Default
   * 1,048,576.
   */
  readonly sizeMax?: number;
}

/** An answer has been copied to state or SQL by then, or somebody reloads the page once more. */
const KEEP_DEFAULT = "1h";
/** A retry of its turn comes later than that. */
const KEEP_MS_MIN = 1000;
/** What is needed for longer is state, not an answer under way: 30 days. */
const KEEP_MS_MAX = 30 * 86_400_000;
/** A long answer of a model is a tenth of it. */
const SIZE_DEFAULT = 2 ** 20;
/** A reader from the start receives all of it, and the agent's database holds it. */
const SIZE_MAX = 2 ** 24;
/** It is in each frame to a client. */
const KEY_LENGTH_MAX = 256;

/** A stream of chunks, which are JSON values; `Chunk` is their type. */
export class DurableStream<Chunk = string> {
  /** The key that it was asked for by. */
  readonly key: string;
  readonly #streams: Streams;
  readonly #settings: StreamSettings;

  /** Made by the runtime only. */
  constructor(streams: Streams, key: string, options: DurableStreamOptions = {}) {
    if (typeof key !== "string" || key === "" || key.length > KEY_LENGTH_MAX)
      throw new TypeError(
        `A stream has a key of 1 to ${KEY_LENGTH_MAX} characters: stream("answer")`,
      );
    this.key = key;
    this.#streams = streams;
    this.#settings = settingsOf(key, options);
  }

  /** `absent` before the first write, and once it was removed or its time is over. */
  get status(): "absent" | "open" | "ended" | "failed" {
    return this.#streams.get(this.key)?.status ?? "absent";
  }
  /** It has ended or failed: nothing can be written to it. */
  get isOver(): boolean {
    return this.status === "ended" || this.status === "failed";
  }
  /** Number of its last chunk; they count from 1. 0: nothing was written yet. */
  get sequence(): number {
    return this.#streams.get(this.key)?.sequence ?? 0;
  }
  /** Its chunks that are strings, joined: what a model's answer goes on from. */
  get text(): string {
    return this.chunks()
      .filter((chunk) => typeof chunk === "string")
      .join("");
  }
  /** What it ended with; undefined otherwise. */
  get result(): unknown {
    const text = this.#streams.get(this.key)?.result ?? null;
    return text === null ? undefined : JSON.parse(text);
  }
  /** Why it failed; undefined otherwise. */
  get error(): string | undefined {
    return this.#streams.get(this.key)?.error ?? undefined;
  }

  /** Its chunks after this number; all by default. */
  chunks(after = 0): Chunk[] {
    return this.#streams.chunks(this.key, after) as Chunk[];
  }

  /** Begins it without a chunk, so that readers find it. Throws `StreamOver` when it is over. */
  begin(): void {
    this.#streams.begin(this.key, this.#settings);
  }

  /**
   * Appends one chunk: JSON of at most 65,536 characters. Returns its number. It is stored, and
   * then sent to readers, within 100 ms, at the latest with the end of the turn. Throws
   * `TypeError` for what is not JSON, `RangeError` for a chunk that is too large, and
   * `StreamTooLarge`, `StreamOver`, `TooManyStreams` or `JournalRateExceeded`; nothing has changed
   * then.
   */
  write(chunk: Chunk): number {
    return this.#streams.write(this.key, jsonOf(chunk, "a chunk"), this.#settings);
  }

  /**
   * Ends it: readers receive `result` (JSON of at most 65,536 characters), and are done. False
   * when it was over already; nothing has changed then.
   */
  end(result?: unknown): boolean {
    const text = result === undefined ? null : jsonOf(result, "the result");
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

  /**
   * Fails it: readers receive the message, and are done. False when it was over already; nothing
   * has changed then.
   */
  fail(message: string): boolean {
    const error = String(message).slice(0, ERROR_LENGTH_MAX);
    return this.#streams.end(this.key, { status: "failed", result: null, error }, this.#settings);
  }

  /** Removes it with its chunks. False when there was none. A later write begins a new one. */
  remove(): boolean {
    return this.#streams.remove(this.key);
  }

  /**
   * Answers an HTTP request with the stream as server-sent events, from where the reader was by its
   * `Last-Event-ID` header or its parameter `since`, to its end. Resolves to 404 when it does not
   * exist within `waitMs`, to 204 for a reader that has all of an ended one, and to 400 for a place
   * that can't be read.
   */
  response(
    request: Pick<Request, "url" | "headers">,
    options: StreamResponseOptions = {},
  ): Promise<Response> {
    return streamResponse(this.#streams, this.key, request, options);
  }
}

/** A message for people. */
const ERROR_LENGTH_MAX = 1000;

function jsonOf(value: unknown, what: string): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined)
    throw new TypeError(`${what} of a stream is JSON; a ${typeof value} is not`);
  return text;
}

function settingsOf(key: string, options: DurableStreamOptions): StreamSettings {
  const { keep = KEEP_DEFAULT, sizeMax = SIZE_DEFAULT } = options;
  const keepMs = keepMsOf(keep, `keep of the stream "${key}"`);
  if (!Number.isInteger(sizeMax) || sizeMax < 1 || sizeMax > SIZE_MAX)
    throw new RangeError(`sizeMax of the stream "${key}" is ${sizeMax}; it is 1 to ${SIZE_MAX}`);
  return { keepMs, sizeMax };
}

/** Milliseconds. Throws `TypeError` for what is no span of time, `RangeError` past the bounds. */
export function keepMsOf(keep: number | string, what: string): number {
  const ms = durationMs(keep, what);
  if (ms >= KEEP_MS_MIN && ms <= KEEP_MS_MAX) return ms;
  throw new RangeError(`${what} is ${JSON.stringify(keep)}; it is 1 second to 30 days`);
}
