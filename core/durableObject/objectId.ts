/**
 * Ids of Durable Objects. An object is addressed by its name like any agent. The text of its id is
 * that name in hexadecimal with a checksum of class and name, so that it can be read back
 * (`idFromString`) without a list of ids anywhere: 64 digits for names of up to 27 bytes, more for
 * longer ones.
 *
 * An agent's name can't begin with `/` (`AgentPath`), but an object's can, as the path of a URL
 * does. The address of such an object has a `~` before its name: `/a` is stored as `~/a`, and `~/a`
 * as `~~/a`.
 */
import { toHex } from "../../schemas/toHex.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { isSubAgentName, ownName, topLevelId } from "../../schemas/AgentPath.ts";
import { crc32 } from "../../schemas/crc32.ts";

/** Bytes of an id without its checksum, where the name is short: 64 digits in all. */
const NAME_BYTES = 28;
const CRC_BYTES = 4;
/** Ends the name: the bytes after it are zeros. */
const END = 0x80;
/** What the names of objects begin with that have none (`newUniqueId`). */
const UNIQUE = "id:";

const encoder = new TextEncoder();

/** Identifies an object: of a stub, of `ctx`, of a namespace's `idFromName`. */
export class ObjectId {
  readonly #id: AgentId;

  constructor(id: AgentId) {
    this.#id = id;
  }

  /** The name it was made from; undefined for one of `newUniqueId`. */
  get name(): string | undefined {
    const name = ownName(this.#id);
    if (name.startsWith(UNIQUE)) return undefined;
    return STORED_PATH.test(name) && !isSubAgentName(this.#id.name) ? name.slice(1) : name;
  }

  /** Hexadecimal digits that `idFromString` reads. */
  toString(): string {
    const name = encoder.encode(this.#id.name);
    const bytes = new Uint8Array(Math.max(NAME_BYTES, name.length + 1) + CRC_BYTES);
    bytes.set(name);
    bytes[name.length] = END;
    new DataView(bytes.buffer).setUint32(bytes.length - CRC_BYTES, checksum(this.#id));
    return toHex(bytes);
  }

  /** Whether both identify the same object. */
  equals(other: { toString(): string }): boolean {
    return this.toString() === String(other);
  }

  /** The address of an id; undefined for any other value. */
  static addressOf(value: unknown): AgentId | undefined {
    return typeof value === "object" && value !== null && #id in value ? value.#id : undefined;
  }
}

const checksum = (id: AgentId): number => crc32(encoder.encode(`${id.class}/${id.name}`));

const PATH = /^~*\//;
const STORED_PATH = /^~+\//;

/** The id of an object with this name. Throws `InvalidAddress` for a name that is none. */
export const namedObjectId = (className: string, name: string): ObjectId =>
  new ObjectId(topLevelId(className, PATH.test(name) ? `~${name}` : name));

/** An id of no name. `random` is unique. */
export const uniqueObjectId = (className: string, random: string): ObjectId =>
  new ObjectId(topLevelId(className, UNIQUE + random));

/** Throws `TypeError` for a text that is not an id of this class. */
export function parseObjectId(className: string, text: string): ObjectId {
  const bytes = Uint8Array.from(text.match(/../g) ?? [], (digits) => parseInt(digits, 16));
  const end = bytes.subarray(0, -CRC_BYTES).lastIndexOf(END);
  try {
    if (end < 0) throw new TypeError("no name");
    const name = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, end));
    const id = new ObjectId(topLevelId(className, name));
    if (id.toString() === text.toLowerCase()) return id;
  } catch {
    // Not a name: said below.
  }
  throw new TypeError(
    `"${text}" is not an id of ${className}: use the text that an id's toString() returns`,
  );
}
