/**
 * Estimates how much memory is reachable from an object, for the watchdog's question which agent
 * holds what fills the process (`whoHolds`). The heap is nearly full, so the walk is short, and
 * keeps little: of a large array, map or object it visits some members that are evenly spaced, and
 * multiplies.
 *
 * 1. No code of the author's runs: getters, iterators and proxies are passed over.
 * 2. What only closures and `#` fields hold is not seen.
 * 3. An object counts once, for the first place that it was reached from.
 */
import { isAnyArrayBuffer, isMap, isProxy, isSet } from "node:util/types";

/** Members that are visited of one object. */
const MEMBERS_MAX = 32;
/** Objects that are visited in all: some 20 ms. */
const VISITED_MAX = 50_000;
/** V8 takes so many for a pointer or number, and for an empty object, array and string. */
const SLOT_BYTES = 8;
const OBJECT_BYTES = 3 * SLOT_BYTES;
const ARRAY_BYTES = 6 * SLOT_BYTES;
const STRING_BYTES = 2.5 * SLOT_BYTES;
/** An entry of a map or a set takes about so many. */
const ENTRY_BYTES = 4 * SLOT_BYTES;

interface Visit {
  readonly value: unknown;
  /** How many members like this one it stands for. */
  readonly weight: number;
}

/** An object's own bytes, how many members it has, and some of them. */
interface Look {
  readonly bytes: number;
  readonly count: number;
  readonly some: ReadonlyArray<unknown>;
}

/** `isBoundary`: objects that are not part of what is held. Returns bytes. */
export function estimateHeld(
  own: ReadonlyArray<unknown>,
  isBoundary: (value: object) => boolean,
): number {
  const seen = new Set<object>();
  const visits: Visit[] = own.map((value) => ({ value, weight: 1 }));
  let held = 0;
  for (let n = 0; n < visits.length && n < VISITED_MAX; n++) {
    const { value, weight } = visits[n]!;
    if (typeof value === "string") held += weight * (STRING_BYTES + value.length);
    if (typeof value !== "object" || value === null || seen.has(value)) continue;
    seen.add(value);
    if (isProxy(value) || isBoundary(value)) continue;
    const { bytes, count, some } = look(value);
    held += weight * bytes;
    for (const member of some)
      visits.push({ value: member, weight: (weight * count) / some.length });
  }
  return held;
}

function look(value: object): Look {
  if (isAnyArrayBuffer(value)) return { bytes: value.byteLength, count: 0, some: [] };
  if (ArrayBuffer.isView(value)) return { bytes: OBJECT_BYTES, count: 1, some: [value.buffer] };
  if (isMap(value) || isSet(value)) return lookAtEntries(value);
  // An array's keys would be as large as the array.
  const keys = Array.isArray(value) ? undefined : Reflect.ownKeys(value);
  const count = keys?.length ?? (value as ReadonlyArray<unknown>).length;
  const some: unknown[] = [];
  for (let at = 0; at < count; at += stepOf(count)) {
    const key = keys?.[Math.floor(at)] ?? Math.floor(at);
    some.push(Object.getOwnPropertyDescriptor(value, key)?.value); // rule 1
  }
  const own = keys === undefined ? ARRAY_BYTES : OBJECT_BYTES;
  return { bytes: own + SLOT_BYTES * count, count, some };
}

/** Keys and values. */
function lookAtEntries(value: ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>): Look {
  // Rule 1: a subclass may have its own.
  const prototype = isMap(value) ? Map.prototype : Set.prototype;
  const size = Reflect.get(prototype, "size", value) as number;
  const some: unknown[] = [];
  let at = 0;
  let next = 0;
  prototype.forEach.call(value as never, (member: unknown, key: unknown) => {
    if (at++ < next) return;
    next += stepOf(size);
    some.push(key === member ? undefined : key, member);
  });
  return { bytes: OBJECT_BYTES + ENTRY_BYTES * size, count: 2 * size, some };
}

const stepOf = (count: number): number => Math.max(1, count / MEMBERS_MAX);
