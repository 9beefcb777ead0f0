/**
 * What the main thread of a process shares with its watchdog thread: a beat, by which the watchdog
 * knows that the event loop turns, and the turn that entered the thread last. The main thread
 * writes, the watchdog reads; `startWatchdog` makes it.
 *
 * Layout: seven 32-bit numbers (beats, the limit in milliseconds of the turn, bytes of its text,
 * whether a debugger is open, megabytes of the heap and of the process at the last beat, the number
 * of a broken part of the runtime from 1), then the turn's fields as UTF-8, separated by NUL. The
 * agent's name and the key are last, after the name's length, because they may contain NUL. Text
 * that does not fit is cut.
 */

export interface NamedTurn {
  readonly class: string;
  readonly name: string;
  /** What caused it: `webhook`, `schedule`, `rpc`, … */
  readonly turn: string;
  /** The key of its input or job; undefined for turns that are never repeated. */
  readonly key?: string;
  /** From 1. */
  readonly attempt: number;
}

/** A turn, and how long it may hold the thread. 0: no limit. */
export interface WatchedTurn extends NamedTurn {
  readonly limitMs: number;
}

/** Offsets and sizes of the numbers. */
const PLACE = {
  beats: 0, limitMs: 1, textBytes: 2, debugged: 3, heapMb: 4, rssMb: 5, broken: 6,
} as const; // prettier-ignore
const HEAD_BYTES = Object.keys(PLACE).length * Int32Array.BYTES_PER_ELEMENT;
/** Names and keys are at most some hundred characters each. */
const TEXT_BYTES_MAX = 2_048;

/** The recorded part of a turn's cause. */
interface EnteringCause {
  readonly kind: string;
  readonly id?: string;
  readonly attempt?: number;
}

/** Kinds of turns that are never repeated: their id is a connection's or a request's. */
const CALLS: ReadonlySet<string> = new Set(["request", "connect", "message", "close", "rpc"]);

/** As `NamedTurn.key`. */
export const keyOf = ({ kind, id }: EnteringCause): string | undefined =>
  CALLS.has(kind) ? undefined : id;

/** Megabytes that V8's heap and the whole process have. */
interface BeatMemory {
  readonly heapMb: number;
  readonly rssMb: number;
}

export class Board {
  private readonly numbers: Int32Array;
  private readonly text: Uint8Array;
  private readonly encoder = new TextEncoder();

  /** `memory`: that of the other thread's board. Default: new memory. */
  constructor(readonly memory = new SharedArrayBuffer(HEAD_BYTES + TEXT_BYTES_MAX)) {
    this.numbers = new Int32Array(memory, 0, HEAD_BYTES / Int32Array.BYTES_PER_ELEMENT);
    this.text = new Uint8Array(memory, HEAD_BYTES);
  }

  /** `debugged`: a debugger may stop the thread at a breakpoint for any time. */
  beat(debugged: boolean, { heapMb, rssMb }: BeatMemory): void {
    this.numbers[PLACE.debugged] = debugged ? 1 : 0;
    this.numbers[PLACE.heapMb] = heapMb;
    this.numbers[PLACE.rssMb] = rssMb;
    Atomics.add(this.numbers, PLACE.beats, 1);
  }

  get beats(): number {
    return Atomics.load(this.numbers, PLACE.beats);
  }

  /** At the last beat. */
  get atBeat(): BeatMemory {
    return { heapMb: this.numbers[PLACE.heapMb]!, rssMb: this.numbers[PLACE.rssMb]! };
  }

  get debugged(): boolean {
    return this.numbers[PLACE.debugged] === 1;
  }

  /** A part of the runtime (`RuntimeChecks`) is broken, probably by the turn that entered last. */
  breaks(part: number): void {
    this.numbers[PLACE.broken] = part + 1;
  }

  /** Undefined: no part is. */
  get broken(): number | undefined {
    const part = this.numbers[PLACE.broken]!;
    return part === 0 ? undefined : part - 1;
  }

  /** Called for each turn that enters the thread: no object is made on the way. */
  enter(id: Pick<NamedTurn, "class" | "name">, cause: EnteringCause, limitMs: number): void {
    const text = `${id.class}\0${cause.kind}\0${cause.attempt ?? 1}\0${id.name.length}\0${id.name}${keyOf(cause) ?? ""}`;
    this.numbers[PLACE.textBytes] = this.encoder.encodeInto(text, this.text).written;
    this.numbers[PLACE.limitMs] = limitMs;
  }

  /** The turn that entered last. Undefined: none has. */
  get last(): WatchedTurn | undefined {
    const bytes = this.numbers[PLACE.textBytes]!;
    if (bytes === 0) return undefined;
    // A decoder does not read shared memory.
    const text = new TextDecoder().decode(this.text.slice(0, bytes));
    const [ofClass = "", turn = "", attempt = "1", chars = "0", ...rest] = text.split("\0");
    const named = rest.join("\0");
    const name = named.slice(0, Number(chars));
    const key = named.slice(name.length);
    return {
      class: ofClass,
      name,
      turn,
      attempt: Number(attempt),
      ...(key !== "" && { key }),
      limitMs: this.numbers[PLACE.limitMs]!,
    };
  }
}
