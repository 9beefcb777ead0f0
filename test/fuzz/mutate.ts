/**
 * Makes one input from others: bytes changed, cut, doubled, spliced; words of the target's language
 * inserted; JSON changed as JSON; and a frame's head changed with a corrected checksum, without
 * which no code after the checksum would be reached. The same seed makes the same inputs.
 */
import { encodeFrameJson } from "../../schemas/Frame.ts";
import type { Random } from "../sim/rig/Random.ts";

/** Longer ones only cost time; limits of size have tests of their own. */
const INPUT_BYTES_MAX = 8 * 1024;
/** Changes in one input. */
const CHANGES_MAX = 5;
const BYTES = [0, 1, 9, 10, 13, 32, 34, 44, 47, 58, 61, 0x7f, 0x80, 0xc0, 0xed, 0xfe, 0xff];
const ODD = ['""', "null", "-1", "1e999", "0.1", "9007199254740993", "true", "[]", "{}", '"\\u0000"', '"\\ud800"', '"__proto__"', '"€"', '{"toString":1}', '{"length":-1}']; // prettier-ignore
const NAMES = ["__proto__", "constructor", "toString", "then", "length", "toJSON", ""];

type Change = (bytes: Buffer, random: Random, other: Uint8Array, words: ReadonlyArray<string>) => Buffer; // prettier-ignore

const cutOut = (bytes: Buffer, from: number, to: number, put: Uint8Array = Buffer.alloc(0)) =>
  Buffer.concat([bytes.subarray(0, from), put, bytes.subarray(to)]);
const span = (bytes: Buffer, random: Random): readonly [number, number] => {
  const from = random.int(0, bytes.length);
  return [from, Math.min(bytes.length, from + random.int(0, random.chance(0.8) ? 8 : 200))];
};

const CHANGES: ReadonlyArray<Change> = [
  (bytes, random) => {
    const copy = Buffer.from(bytes);
    if (copy.length > 0) copy[random.int(0, copy.length - 1)]! ^= 1 << random.int(0, 7);
    return copy;
  },
  (bytes, random) => {
    const [at] = span(bytes, random);
    return cutOut(bytes, at, at + 1, Buffer.from([random.chance(0.5) ? random.pick(BYTES) : random.int(0, 255)])); // prettier-ignore
  },
  (bytes, random) => cutOut(bytes, ...span(bytes, random)),
  (bytes, random) => {
    const [from, to] = span(bytes, random);
    const piece = bytes.subarray(from, to);
    const times = random.chance(0.9) ? 1 : random.int(2, 300);
    return cutOut(bytes, to, to, Buffer.concat(Array.from({ length: times }, () => piece)));
  },
  (bytes, random, other) => {
    const [from, to] = span(bytes, random);
    const piece = Buffer.from(other).subarray(...span(Buffer.from(other), random));
    return cutOut(bytes, from, random.chance(0.5) ? from : to, piece);
  },
  (bytes, random, other) =>
    Buffer.concat([
      bytes.subarray(0, random.int(0, bytes.length)),
      other.subarray(random.int(0, other.length)),
    ]),
  (bytes, random, _other, words) => {
    if (words.length === 0) return bytes;
    const [from, to] = span(bytes, random);
    return cutOut(bytes, from, random.chance(0.5) ? from : to, Buffer.from(random.pick(words), "latin1")); // prettier-ignore
  },
  (bytes, random) => {
    const text = bytes.toString("latin1");
    const found = [...text.matchAll(/-?\d+/g)];
    if (found.length === 0) return bytes;
    const { 0: digits, index } = random.pick(found);
    const number = random.pick(["0", "-1", "1", "65536", "2147483648", "4294967295", "9007199254740992", "1e400", `${Number(digits) + 1}`]); // prettier-ignore
    return cutOut(bytes, index, index + digits.length, Buffer.from(number));
  },
  (bytes, random) => changeJson(bytes, random),
  (bytes, random) => changeFrame(bytes, random),
];

export function mutate(
  corpus: ReadonlyArray<Uint8Array>,
  words: ReadonlyArray<string>,
  random: Random,
): Uint8Array {
  let bytes: Buffer = Buffer.from(random.pick(corpus));
  for (let n = random.int(1, CHANGES_MAX); n > 0; n--)
    bytes = random.pick(CHANGES)(bytes, random, random.pick(corpus), words);
  return bytes.subarray(0, INPUT_BYTES_MAX);
}

/** The first JSON object in the bytes, changed; the bytes as they are where there is none. */
function changeJson(bytes: Buffer, random: Random): Buffer {
  const text = bytes.toString();
  const from = text.search(/[{[]/);
  if (from === -1) return bytes;
  const end = text.indexOf("\n", from);
  const line = end === -1 ? text.slice(from) : text.slice(from, end);
  const changed = changedJson(line, random);
  if (changed === undefined) return bytes;
  return Buffer.from(text.slice(0, from) + changed + (end === -1 ? "" : text.slice(end)));
}

/** A frame (`schemas/Frame`) with another head and the checksum of that. */
function changeFrame(bytes: Buffer, random: Random): Buffer {
  const from = bytes.indexOf('{"v":');
  if (from === -1 || from > 1) return bytes;
  const end = bytes.indexOf(10, from);
  if (end === -1) return bytes;
  const head = /^\{"v":\d+,"crc":"\w+",?(.*)$/s.exec(bytes.toString("utf8", from, end))?.[1];
  const changed = head === undefined ? undefined : changedJson(`{${head}`, random);
  if (changed?.startsWith("{") !== true) return bytes;
  const frame = encodeFrameJson(changed, bytes.subarray(end + 1));
  return Buffer.concat([bytes.subarray(0, from), frame]);
}

/** One value in it is replaced, taken away, named otherwise or put somewhere else. */
function changedJson(text: string, random: Random): string | undefined {
  let root: unknown;
  try {
    root = JSON.parse(text);
  } catch {
    return undefined;
  }
  const places: Array<{ readonly holder: Record<string, unknown>; readonly key: string }> = [];
  const walk = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const holder = value as Record<string, unknown>;
    for (const key of Object.keys(holder)) {
      places.push({ holder, key });
      walk(holder[key]);
    }
  };
  walk(root);
  if (places.length === 0) return undefined;
  const { holder, key } = random.pick(places);
  const other = random.pick(places);
  // A mark that is replaced in the text, for what JSON.stringify would not write.
  const mark = "@@odd@@";
  try {
    if (random.chance(0.5)) holder[key] = mark;
    else if (random.chance(0.4)) delete holder[key];
    else if (random.chance(0.3)) holder[random.pick(NAMES)] = holder[key];
    else holder[key] = structuredClone(other.holder[other.key]);
    return JSON.stringify(root).replace(`"${mark}"`, () => random.pick(ODD));
  } catch {
    return undefined; // an array can't be that long, or a `toJSON` is no function
  }
}
