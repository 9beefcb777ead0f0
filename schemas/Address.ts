/**
 * An agent's address: `(class, name)`, its shard, and the token codec.
 *
 * One codec serves subjects, KV keys and file names: every UTF-8 byte outside `[A-Za-z0-9_-]` is
 * written as `=XX` (upper-case hex), so any name fits in one subject token and decodes exactly.
 * Used by `Subjects`, the adapters and the gateway's routing.
 */
import * as Brand from "effect/Brand";
import * as Data from "effect/Data";

export { camelCaseToKebabCase } from "./kebabCase.ts";

export type AgentClass = string & Brand.Brand<"AgentClass">;
export type AgentName = string & Brand.Brand<"AgentName">;
export type ShardId = number & Brand.Brand<"ShardId">;
/** Position in a stream, from 1; 0 means that the stream has no message yet. */
export type Sequence = number & Brand.Brand<"Sequence">;
/** Number of a shard's ownership. Strictly increasing for a shard, across all hosts. */
export type Epoch = number & Brand.Brand<"Epoch">;

export interface AgentId {
  readonly class: AgentClass;
  readonly name: AgentName;
}

/** Longest name in bytes of UTF-8; the limit of `protocol.md` (names). */
export const AGENT_NAME_BYTES_MAX = 1024;
/** Shards of a new installation. Fixed at provisioning and stored with the stream. */
export const SHARDS_DEFAULT = 64;

/** The class or the name of an agent can't be used; `message` says why and is safe to show. */
export class InvalidAddress extends Data.TaggedError("InvalidAddress")<{
  readonly message: string;
}> {}

/**
 * Checks and brands an address. The class is an identifier (`[A-Za-z_$][A-Za-z0-9_$]*`); the name
 * is any non-empty well-formed string of at most 1,024 bytes of UTF-8. Throws `InvalidAddress`.
 */
export function agentId(className: string, name: string): AgentId {
  if (!/^[A-Za-z_$][\w$]*$/.test(className))
    throw new InvalidAddress({ message: `Agent class "${className}" is not an identifier` });
  if (typeof name !== "string")
    throw new InvalidAddress({ message: `Agent name must be text, not ${typeof name}` });
  if (name.length === 0) throw new InvalidAddress({ message: "Agent name is empty" });
  // A UTF-16 unit takes at most 3 bytes: short names need no exact count.
  if (name.length * 3 > AGENT_NAME_BYTES_MAX) {
    const bytes = utf8.encode(name).length;
    if (bytes > AGENT_NAME_BYTES_MAX)
      throw new InvalidAddress({
        message: `Agent name is ${bytes} bytes long; the limit is ${AGENT_NAME_BYTES_MAX} bytes of UTF-8`,
      });
  }
  // In UTF-8 all lone surrogates are one character: two names would have one agent.
  if (!name.isWellFormed())
    throw new InvalidAddress({
      message: `Agent name ${JSON.stringify(name)} is not well-formed Unicode`,
    });
  return { class: className as AgentClass, name: name as AgentName };
}

/** A string that is unique to the address; for maps and logs, not for the wire. */
export const addressKey = (id: AgentId): string => `${id.class}/${id.name}`;

const utf8 = new TextEncoder();
const text = new TextDecoder();
const SAFE = /^[A-Za-z0-9_-]+$/;
const isSafeByte = (b: number): boolean =>
  (b >= 0x30 && b <= 0x39) ||
  (b >= 0x41 && b <= 0x5a) ||
  (b >= 0x61 && b <= 0x7a) ||
  b === 0x5f ||
  b === 0x2d;

/** One subject token for any non-empty string. Lone surrogates become U+FFFD, as in all UTF-8. */
export function encodeToken(value: string): string {
  if (SAFE.test(value)) return value;
  let out = "";
  for (const b of utf8.encode(value))
    out += isSafeByte(b)
      ? String.fromCharCode(b)
      : "=" + (b < 16 ? "0" : "") + b.toString(16).toUpperCase();
  return out;
}

/** The string that `encodeToken` encoded. Throws `InvalidAddress` for what it never writes. */
export function decodeToken(token: string): string {
  if (SAFE.test(token)) return token;
  if (!/^(?:[A-Za-z0-9_-]|=[0-9A-F]{2})+$/.test(token))
    throw new InvalidAddress({ message: `"${token}" is not an encoded token` });
  const bytes: number[] = [];
  for (let i = 0; i < token.length; i++) {
    if (token[i] === "=") {
      bytes.push(parseInt(token.slice(i + 1, i + 3), 16));
      i += 2;
    } else bytes.push(token.charCodeAt(i));
  }
  return text.decode(Uint8Array.from(bytes));
}

/** 32-bit FNV-1a over UTF-8. */
export function fnv1a32(value: string, seed = 0x811c9dc5): number {
  let hash = seed;
  for (let i = 0; i < value.length; i++) {
    const c = value.charCodeAt(i);
    if (c < 0x80) hash = Math.imul(hash ^ c, 0x01000193);
    else {
      for (const b of utf8.encode(value.slice(i))) hash = Math.imul(hash ^ b, 0x01000193);
      break;
    }
  }
  return hash >>> 0;
}

/** The shard of an agent: `fnv1a32(class NUL name) mod shards`. Part of the stored format. */
export const shardOf = (id: AgentId, shards: number): ShardId =>
  (fnv1a32(id.name, fnv1a32(id.class + "\0")) % shards) as ShardId;
