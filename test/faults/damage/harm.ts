/** Damages stored bytes as disks and crashes do, drawn from the seed. It always changes some. */
import type { Random } from "../../sim/rig/Random.ts";

/** How often each, of a hundred. */
const HARMS = { bit: 45, "bit in the head": 20, cut: 20, "zeroed sector": 10, "zeroed tail": 5 };
/** A frame's version, its checksum and the first of its fields. */
const HEAD_BYTES = 32;
/** What a disk writes at once. */
const SECTOR_BYTES = 512;
const BITS = 8;

export function harm(bytes: Uint8Array, random: Random): { readonly how: string; readonly data: Uint8Array } {
  for (;;) {
    const kind = random.weighted(HARMS);
    const { at, data } = DO[kind](bytes, random);
    if (data.length !== bytes.length || Buffer.compare(data, bytes) !== 0)
      return { how: `${kind} at ${at} of ${bytes.length}`, data };
  }
} // prettier-ignore

type Do = (bytes: Uint8Array, random: Random) => { readonly at: number; readonly data: Uint8Array };

const flip =
  (bytesMax: number): Do =>
  (bytes, random) => {
    const at = random.int(0, Math.min(bytesMax, bytes.length) - 1);
    const data = Uint8Array.from(bytes);
    data[at] = data[at]! ^ (1 << random.int(0, BITS - 1));
    return { at, data };
  };

const DO: Readonly<Record<keyof typeof HARMS, Do>> = {
  bit: flip(Infinity),
  "bit in the head": flip(HEAD_BYTES),
  cut: (bytes, random) => {
    const at = random.int(0, bytes.length - 1);
    return { at, data: bytes.slice(0, at) };
  },
  "zeroed sector": (bytes, random) => {
    const at = SECTOR_BYTES * random.int(0, Math.floor((bytes.length - 1) / SECTOR_BYTES));
    return { at, data: Uint8Array.from(bytes).fill(0, at, at + SECTOR_BYTES) };
  },
  // The length was stored before the bytes were.
  "zeroed tail": (bytes, random) => {
    const at = random.int(0, bytes.length - 1);
    return { at, data: Uint8Array.from(bytes).fill(0, at) };
  },
};
