/**
 * Finds out whether the globals and prototypes that a process runs on still work: agents' code can
 * replace them. Each part has a small test of what it does, so a replacement that works, such as
 * one that traces calls, is accepted. `startWatchdog` owns it, and the watchdog's thread ends a
 * process with a broken part.
 *
 * 1. A part is tested once it has been replaced. It is broken when its test has failed in
 *    `FAILS_MAX` checks, one after the other: timers and microtasks that a check starts have run
 *    before the next one.
 * 2. The checks run on broken parts. They therefore use only what is tested, each in its test.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { EventEmitter } from "node:events";
import { Socket } from "node:net";

/** Rule 1. More than a busy event loop leaves between two beats. */
const FAILS_MAX = 4;
/** Milliseconds between two readings of the clock, one after the other. */
const CLOCK_MS_MAX = 1_000;

interface RuntimePart {
  readonly name: string;
  /** What code replaces. */
  readonly read: () => unknown;
  /** May throw where the part is broken. */
  readonly works: () => boolean;
}

const KEY = {};
const [NUMBERS, MAP, SET] = [[1, 2], new Map([[KEY, 1]]), new Set([KEY])];
const STORAGE = new AsyncLocalStorage<object>();
const TEXT = '{"a":[1,"b"]}';

function makeParts(): ReadonlyArray<RuntimePart> {
  const part = (name: string, read: () => unknown, works: () => boolean): RuntimePart => ({
    name,
    read,
    works,
  });
  return [
    part("Promise.prototype.then", () => Promise.prototype.then, runs((f) => void Promise.resolve().then(f))),
    part("queueMicrotask", () => queueMicrotask, runs((f) => queueMicrotask(f))),
    part("setTimeout", () => setTimeout, runs((f) => void setTimeout(f, 0).unref())),
    part("setImmediate", () => setImmediate, runs((f) => void setImmediate(f))),
    part("process.nextTick", () => process.nextTick, runs((f) => process.nextTick(f))),
    part("Date.now", () => Date.now, () => Math.abs(Date.now() - new Date().getTime()) < CLOCK_MS_MAX),
    part("performance.now", () => performance.now, advances(() => performance.now())),
    part("JSON.parse", () => JSON.parse, () => JSON.parse(TEXT).a[1] === "b"),
    part("JSON.stringify", () => JSON.stringify, () => JSON.stringify({ a: [1, "b"] }) === TEXT),
    part("Buffer.from", () => Buffer.from, () => Buffer.from("ab").length === 2),
    part("Map.prototype.get", () => Map.prototype.get, () => MAP.get(KEY) === 1),
    part("Map.prototype.has", () => Map.prototype.has, () => MAP.has(KEY) && !MAP.has(MAP)),
    part("Map.prototype.set", () => Map.prototype.set, () => new Map().set(KEY, 1).size === 1),
    part("Set.prototype.has", () => Set.prototype.has, () => SET.has(KEY) && !SET.has(MAP)),
    part("Set.prototype.add", () => Set.prototype.add, () => new Set().add(KEY).size === 1),
    part("Array.prototype[Symbol.iterator]", () => NUMBERS[Symbol.iterator], () => sum(NUMBERS) === 3),
    part("Array.prototype.push", () => NUMBERS.push, () => [1].push(2) === 2),
    part("Array.prototype.map", () => NUMBERS.map, () => NUMBERS.map((n) => n + 1)[1] === 3),
    part("Array.prototype.filter", () => NUMBERS.filter, () => NUMBERS.filter((n) => n > 1)[0] === 2),
    part("Array.prototype.slice", () => NUMBERS.slice, () => NUMBERS.slice(1)[0] === 2),
    part("Array.prototype.join", () => NUMBERS.join, () => NUMBERS.join("-") === "1-2"),
    part("String.prototype.split", () => TEXT.split, () => "a.b".split(".")[1] === "b"),
    part("String.prototype.slice", () => TEXT.slice, () => "abc".slice(1) === "bc"),
    part("RegExp.prototype.exec", () => RegExp.prototype.exec, () => /b(c)/.exec("abc")![1] === "c"),
    part("Object.keys", () => Object.keys, () => Object.keys({ a: 1 })[0] === "a"),
    part("Object.entries", () => Object.entries, () => Object.entries({ a: 1 })[0]![1] === 1),
    part("Math.floor", () => Math.floor, () => Math.floor(1.5) === 1),
    part("Math.max", () => Math.max, () => Math.max(1, 2) === 2),
    part("Math.min", () => Math.min, () => Math.min(1, 2) === 1),
    part("EventEmitter.prototype.on", () => EventEmitter.prototype.on, () => isHeard(new EventEmitter())),
    part("EventEmitter.prototype.emit", () => EventEmitter.prototype.emit, () => isHeard(new EventEmitter())),
    part("net.Socket.prototype.write", () => Socket.prototype.write, writes()),
    part("AsyncLocalStorage.prototype.run", () => STORAGE.run, () => keeps(STORAGE)),
    part("AsyncLocalStorage.prototype.getStore", () => STORAGE.getStore, () => keeps(STORAGE)),
    part("Function.prototype.call", () => sum.call, () => sum.call(undefined, NUMBERS) === 3),
  ]; // prettier-ignore
}

export class RuntimeChecks {
  private readonly parts = makeParts();
  private readonly values: unknown[] = [];
  /** Undefined: the part is the one that was there at the beginning. */
  private readonly fails: Array<number | undefined> = [];

  constructor() {
    for (const part of this.parts) {
      this.values.push(valueOf(part));
      this.fails.push(undefined);
    }
  }

  nameOf(part: number): string {
    return this.parts[part]!.name;
  }

  /** Calls `onReplaced` with the number of each part that was replaced after the last look. */
  look(onReplaced: (part: number) => void): void {
    for (let n = 0; n < this.parts.length; n++) {
      const value = valueOf(this.parts[n]!);
      if (value === this.values[n]) continue;
      this.values[n] = value;
      this.fails[n] ??= 0;
      onReplaced(n);
    }
  }

  /** The number of a part that is broken (rule 1). */
  check(): number | undefined {
    for (let n = 0; n < this.parts.length; n++) {
      const fails = this.fails[n];
      if (fails === undefined) continue;
      this.fails[n] = isWorking(this.parts[n]!) ? 0 : fails + 1;
      if (this.fails[n]! >= FAILS_MAX) return n;
    }
    return undefined;
  }
}

function isWorking(part: RuntimePart): boolean {
  try {
    return part.works();
  } catch {
    return false;
  }
}

/** A global that was deleted throws. */
function valueOf({ read }: RuntimePart): unknown {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Whether what was started at the last check has run. */
function runs(start: (f: () => void) => void): () => boolean {
  let ran = true;
  const done = (): void => void (ran = true);
  return () => {
    if (!ran) return false;
    ran = false;
    start(done);
    return true;
  };
}

function advances(read: () => number): () => boolean {
  let before = -Infinity;
  return () => {
    const last = before;
    before = read();
    return before > last;
  };
}

const keeps = (storage: AsyncLocalStorage<object>): boolean =>
  storage.run(KEY, () => storage.getStore()) === KEY;

function isHeard(emitter: EventEmitter): boolean {
  let heard = 0;
  emitter.on("event", (n: number) => (heard = n));
  emitter.emit("event", 1);
  return heard === 1;
}

/** Whether a socket that is never connected passes on what is written to it. */
function writes(): () => boolean {
  let written = 0;
  const write: Socket["_write"] = (_chunk, _encoding, done) => {
    written++;
    done();
  };
  const socket = Object.assign(new Socket(), { _write: write });
  return () => {
    const before = written;
    socket.write("a");
    return written > before;
  };
}

function sum(numbers: ReadonlyArray<number>): number {
  let all = 0;
  for (const n of numbers) all += n;
  return all;
}
