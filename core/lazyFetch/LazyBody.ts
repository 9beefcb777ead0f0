/**
 * The body of a lazy request or response: read directly from its bytes or text, once; a second
 * reading ends as the platform's would. Once the real object exists, its body is used.
 */
import { ownBuffer } from "../../schemas/ownBuffer.ts";

interface RealBody {
  readonly bodyUsed: boolean;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<unknown>;
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

export class LazyBody {
  /** Null: there is none, and reading it any number of times returns nothing. */
  readonly source: Uint8Array | string | null;
  readonly #unlazy: () => RealBody;
  #real: RealBody | undefined;
  #used = false;

  constructor(source: Uint8Array | string | null, unlazy: () => RealBody) {
    this.source = source;
    this.#unlazy = unlazy;
  }

  get used(): boolean {
    return this.#real?.bodyUsed ?? this.#used;
  }

  /** Whether nothing has read it, and no real object exists. */
  get untouched(): boolean {
    return !this.#used && this.#real === undefined;
  }

  /** Takes the source, after which the body is used; undefined: it was touched before. */
  take(): Uint8Array | string | null | undefined {
    return this.#take() ? this.source : undefined;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    if (!this.#take()) return this.#unlazy().arrayBuffer();
    const { source } = this;
    if (source === null) return new ArrayBuffer(0);
    const bytes = typeof source === "string" ? encoder.encode(source) : source;
    return ownBuffer(bytes);
  }

  async text(): Promise<string> {
    return this.#take() ? this.#text() : this.#unlazy().text();
  }

  async json(): Promise<unknown> {
    return this.#take() ? (JSON.parse(this.#text()) as unknown) : this.#unlazy().json();
  }

  /** From now on `real` has the body. It counts as read there if it was read here. */
  handOver(real: RealBody): void {
    this.#real = real;
    if (this.#used) void real.arrayBuffer();
  }

  #text(): string {
    const { source } = this;
    if (source === null) return "";
    // As the platform decodes: a lone surrogate is replaced, a byte order mark is dropped.
    if (typeof source !== "string") return decoder.decode(source);
    const text = source.toWellFormed?.() ?? decoder.decode(encoder.encode(source));
    return text.startsWith("\uFEFF") ? text.slice(1) : text;
  }

  /** False when the real object has to answer: with its body, or with its error. */
  #take(): boolean {
    if (!this.untouched) return false;
    this.#used = this.source !== null;
    return true;
  }
}
