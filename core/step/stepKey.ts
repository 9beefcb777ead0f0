/**
 * Names and keys of steps, of turns and of workflows (`StepCounts` numbers them). The idempotency
 * key of a turn's step consists of its agent, its turn's input and its own key, so it is the same
 * in each attempt on each host, also after a redrive, and no other step has it. Pure.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { Cause } from "../../schemas/JournalEvent.ts";
import { firstKey } from "../queue/redrivenKey.ts";

/** The name is part of the journal and of every key. */
export const STEP_NAME_CHARS_MAX = 256;
/**
 * Steps of work that has failed or ended reject at once so often, and after `REFUSAL_MS` from then
 * on. Code may catch that and repeat the step in a loop, which would otherwise hold the thread.
 */
export const REFUSALS_AT_ONCE = 10;
export const REFUSAL_MS = 1_000;

/** `call`: as people write it, for the error. Throws `TypeError`. */
export function checkStepName(name: unknown, call: string): asserts name is string {
  if (typeof name === "string" && name !== "" && name.length <= STEP_NAME_CHARS_MAX) return;
  throw new TypeError(
    `${call}: the name of a step must be text of 1 to ${STEP_NAME_CHARS_MAX} characters`,
  );
}

export const nameOfStep = (key: string): string => key.slice(key.indexOf(":") + 1);

/** Receivers of `Idempotency-Key` take at most 255 characters. */
const KEY_CHARS_MAX = 255;

export function stepKey(
  { class: className, name }: AgentId,
  { id = "", redrive }: Pick<Cause, "id" | "redrive">,
  step: string,
): string {
  const input = redrive === undefined ? firstKey(id) : `${id} redrive ${redrive}`;
  const parts = [className, name, input, step];
  const key = parts.map((part) => encodeURIComponent(part.toWellFormed())).join("/");
  return key.length <= KEY_CHARS_MAX ? key : hashed(key, key);
}

/** What arrives of a header's value: visible Latin-1, and spaces and tabs that are not its ends. */
const HEADER_VALUE = /^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/;

/**
 * The idempotency key of a workflow's step: `key` itself where receivers take it in a header, else
 * its encoding with a hash.
 */
export function headerKey(key: string): string {
  if (key.length <= KEY_CHARS_MAX && HEADER_VALUE.test(key)) return key;
  return hashed(encodeURIComponent(key.toWellFormed()), key);
}

/** `text` as far as it has room before the hash of `whole`. */
function hashed(text: string, whole: string): string {
  const hash = hashOf(whole);
  return `${text.slice(0, KEY_CHARS_MAX - hash.length - 1)}~${hash}`;
}

/** 106 bits of two hashes (cyrb53) with different seeds, which tell texts apart that were cut. */
export function hashOf(text: string): string {
  return cyrb53(text, 0).toString(36) + cyrb53(text, 1).toString(36);
}

function cyrb53(text: string, seed: number): number {
  let a = 0xdeadbeef ^ seed;
  let b = 0x41c6ce57 ^ seed;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 2654435761);
    b = Math.imul(b ^ unit, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return 4294967296 * (2097151 & b) + (a >>> 0);
}
