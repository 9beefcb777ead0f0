/**
 * How a value of the key-value calls is stored in its column: JSON as text, which people and SQL
 * can read, and everything else that can be cloned as a blob of structured text
 * (`schemas/StructuredText`).
 */
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import type { SqlValue } from "./Databases.ts";

/** Nested deeper than this it is structured text, which needs no stack. */
const DEPTH_MAX = 200;

/** Throws a `DataCloneError` that names what can't be cloned. `what` names the value. */
export const toStored = (value: unknown, what: string): string | Uint8Array =>
  isJson(value, 0)
    ? JSON.stringify(value)
    : new TextEncoder().encode(encodeStructured(value, what));

export const fromStored = (stored: SqlValue | undefined): unknown =>
  stored instanceof Uint8Array
    ? decodeStructured(new TextDecoder().decode(stored))
    : (JSON.parse(String(stored)) as unknown);

/** Whether the value survives a round trip through JSON unchanged. */
function isJson(value: unknown, depth: number): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value) && !Object.is(value, -0);
  if (typeof value !== "object" || depth > DEPTH_MAX) return false;
  const within = (item: unknown): boolean => isJson(item, depth + 1);
  // `every` leaves holes out.
  if (Array.isArray(value))
    return Object.keys(value).length === value.length && value.every(within);
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return false;
  return !("toJSON" in value) && Object.values(value).every(within);
}
