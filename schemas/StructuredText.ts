/**
 * The text of a value that JSON can't carry: dates, maps, sets, bytes, errors, `undefined`, big
 * integers, cycles. What is copied is what the structured clone algorithm copies. Durable Objects
 * store and send such values; stored and sent as text, so part of the stored formats.
 *
 *     [1, node 0, node 1, …]   the version, then the value (node 0) and what it refers to
 *
 * A node is a JSON scalar as it is, or an array: a tag and its parts, of which those that are
 * values are indexes of nodes. An object that is referred to twice is one node.
 */
import { fromBase64, toBase64 } from "./base64.ts";

/** The first. A reader refuses one that it does not know. */
const VERSION = 1;
/** With references, which only calls carry: nodes of a tag and the texts that `refer` returned. */
const WITH_REFERENCES = 2;
/** The index of a place in an array that holds nothing. */
const HOLE = -1;
/** A longer array must not be mostly holes. Keys of a full array of this length take 10 ms. */
const HOLES_LENGTH_MAX = 100_000;

const VIEWS = {
  Uint8Array,
  Int8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
};
const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

type Add = (value: unknown, key: string) => number;

/** Where an object of the value stands, for errors: its key in the object above. */
interface Place {
  readonly value: object;
  readonly index: number;
  readonly above: Place | undefined;
  readonly key: string;
}

/**
 * Throws a `DataCloneError` that names the place, like `the value of "a": .list[0] is a function`.
 * `what` names the value. `mayCarry`: an object that is none of the kinds above, asked before its
 * own properties are taken; default: any may. `refer`: what an object is referred to by, in place
 * of a copy; default: none is.
 */
export function encodeStructured(
  value: unknown,
  what: string,
  mayCarry: (value: object) => boolean = () => true,
  refer: (value: object) => ReadonlyArray<string> | undefined = () => undefined,
): string {
  let version = VERSION;
  const nodes: unknown[] = [];
  const indexes = new Map<object, number>();
  const places: Place[] = [];
  const adder =
    (above: Place | undefined): Add =>
    (given, key) => {
      const isObject = typeof given === "object" && given !== null;
      const known = isObject ? indexes.get(given) : undefined;
      if (known !== undefined) return known;
      const index = nodes.push(isObject ? null : scalarNode(given)) - 1;
      if (nodes[index] === undefined) throw refused(what, above, key, `a ${typeof given}`);
      if (isObject) indexes.set(given, index);
      if (isObject) places.push({ value: given, index, above, key });
      return index;
    };
  adder(undefined)(value, "");
  // Grows while it is walked: depth costs no stack.
  for (const place of places) {
    if (isMostlyHoles(place.value))
      throw refused(what, place.above, place.key, "an array that is mostly holes");
    const reference = refer(place.value);
    if (reference !== undefined) version = WITH_REFERENCES;
    const node =
      reference === undefined
        ? objectNode(place.value, adder(place), mayCarry)
        : ["reference", ...reference];
    if (node === undefined) {
      const name = place.value.constructor?.name ?? "object";
      throw refused(what, place.above, place.key, `of type ${name}`);
    }
    nodes[place.index] = node;
  }
  return JSON.stringify([version, ...nodes]);
}

/** An array that `list[id] = x` has made: visiting its places, or writing them, takes minutes. */
export const isMostlyHoles = (value: object): boolean =>
  Array.isArray(value) &&
  value.length > HOLES_LENGTH_MAX &&
  Object.keys(value).length < value.length / 2;

/** Undefined: it can't be copied. */
function scalarNode(value: unknown): unknown {
  switch (typeof value) {
    case "undefined":
      return ["undefined"];
    case "bigint":
      return ["bigint", String(value)];
    case "number":
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : ["number", Object.is(value, -0) ? "-0" : String(value)];
    case "function":
    case "symbol":
      return undefined;
    default:
      return value;
  }
}

/** What would lose its meaning with its class: code, connections, the object of a scalar. */
const NEVER = [
  WeakMap, WeakSet, Promise, Request, Response, ReadableStream, WritableStream, Boolean, Number, String,
]; // prettier-ignore

function objectNode(value: object, add: Add, mayCarry: (value: object) => boolean): unknown {
  if (Array.isArray(value)) {
    const refs = Array.from({ length: value.length }, (_, i) =>
      i in value ? add(value[i], `[${i}]`) : HOLE,
    );
    return ["array", ...refs];
  }
  if (value instanceof Date) return ["date", value.getTime()];
  if (value instanceof RegExp) return ["regexp", value.source, value.flags];
  if (value instanceof Map)
    return ["map", ...[...value].flatMap(([k, v]) => [add(k, ".key"), add(v, `.get(${nameOfKey(k)})`)])]; // prettier-ignore
  if (value instanceof Set) return ["set", ...Array.from(value, (item) => add(item, ".item"))];
  if (value instanceof ArrayBuffer)
    return ["bytes", "ArrayBuffer", toBase64(new Uint8Array(value))];
  if (ArrayBuffer.isView(value)) {
    const type = Object.keys(VIEWS).find((name) => value instanceof VIEWS[name as keyof typeof VIEWS]); // prettier-ignore
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return ["bytes", type, toBase64(bytes)];
  }
  if (value instanceof Error) {
    const { name, message, stack } = value;
    const cause = "cause" in value ? [add(value.cause, ".cause")] : [];
    const type = Object.hasOwn(ERRORS, name) ? name : "Error";
    return ["error", type, String(message), typeof stack === "string" ? stack : null, ...cause];
  }
  if (NEVER.some((type) => value instanceof type) || !mayCarry(value)) return undefined;
  return ["object", ...Object.entries(value).flatMap(([key, item]) => [key, add(item, `.${key}`)])];
}

/** For errors. An object need not have a `toString`. */
const nameOfKey = (key: unknown): string =>
  typeof key === "object" && key !== null ? Object.prototype.toString.call(key) : String(key);

function refused(what: string, above: Place | undefined, key: string, is: string): DOMException {
  let path = key;
  for (let at = above; at !== undefined; at = at.above) path = at.key + path;
  const place = path === "" ? what : `${what}: ${path}`;
  return new DOMException(`${place} is ${is}, which can't be cloned`, "DataCloneError");
}

/**
 * The value of a text. `revive` makes the object of a reference; without it there may be none.
 * Throws `Error` for a text of a later version.
 */
export function decodeStructured(
  text: string,
  revive?: (reference: ReadonlyArray<string>) => object,
): unknown {
  const [version, ...nodes] = JSON.parse(text) as unknown[];
  if (version !== VERSION && !(version === WITH_REFERENCES && revive !== undefined))
    throw new Error(`a structured value of version ${String(version)}: written by a newer release`);
  // Objects first and what is in them afterwards, so that a cycle finds them.
  const values = nodes.map((node) =>
    Array.isArray(node) && node[0] === "reference"
      ? revive?.(node.slice(1) as string[])
      : shellOf(node),
  );
  const at = (index: unknown): unknown => values[index as number];
  nodes.forEach((node, i) => {
    if (Array.isArray(node)) fill(values[i], nodeOf(node), at);
  });
  return values[0];
}

type Node = readonly [tag: unknown, ...parts: unknown[]];
/** Place of the cause among an error's parts: after its name, message and stack. */
const CAUSE = 3;

const nodeOf = ([tag, ...parts]: ReadonlyArray<unknown>): Node => [tag, ...parts];

function shellOf(node: unknown): unknown {
  if (!Array.isArray(node)) return node;
  const [tag, first, second] = node as unknown[];
  switch (tag) {
    case "undefined":
      return undefined;
    case "bigint":
      return BigInt(String(first));
    case "number":
      return Number(first);
    case "date":
      return new Date(first === null ? NaN : Number(first));
    case "regexp":
      return new RegExp(String(first), String(second));
    case "array":
      return Array.from({ length: node.length - 1 });
    case "map":
      return new Map();
    case "set":
      return new Set();
    case "bytes":
      return viewOf(String(first), fromBase64(String(second)));
    case "error":
      return errorOf(nodeOf(node));
    default:
      return {};
  }
}

function viewOf(type: string, bytes: Uint8Array): unknown {
  const buffer = bytes.buffer as ArrayBuffer;
  if (type === "ArrayBuffer") return buffer;
  return new (VIEWS[type as keyof typeof VIEWS] as new (of: ArrayBuffer) => ArrayBufferView)(
    buffer,
  );
}

function errorOf([, name, message, stack]: Node): Error {
  // Older releases wrote other names, like `toString`, too.
  const type = Object.hasOwn(ERRORS, String(name)) ? (name as keyof typeof ERRORS) : "Error";
  const error = new ERRORS[type](String(message));
  Object.defineProperty(error, "stack", { value: stack ?? "", writable: true, configurable: true });
  return error;
}

function fill(value: unknown, [tag, ...parts]: Node, at: (index: unknown) => unknown): void {
  if (tag === "array")
    parts.forEach((ref, i) => {
      if (ref === HOLE) Reflect.deleteProperty(value as unknown[], i);
      else (value as unknown[])[i] = at(ref);
    });
  else if (tag === "set") for (const ref of parts) (value as Set<unknown>).add(at(ref));
  else if (tag === "map")
    for (let i = 0; i < parts.length; i += 2)
      (value as Map<unknown, unknown>).set(at(parts[i]), at(parts[i + 1]));
  else if (tag === "object")
    for (let i = 0; i < parts.length; i += 2)
      // Not by assignment, which `__proto__` would turn into another thing.
      Object.defineProperty(value, String(parts[i]), {
        value: at(parts[i + 1]),
        enumerable: true,
        configurable: true,
        writable: true,
      });
  else if (tag === "error" && parts[CAUSE] !== undefined)
    Object.defineProperty(value, "cause", { value: at(parts[CAUSE]), writable: true, configurable: true }); // prettier-ignore
}
