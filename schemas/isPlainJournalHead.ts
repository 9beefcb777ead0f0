/**
 * `JournalHead` by hand, for replay: the schema takes five times as long as all else that reading an event costs. True
 * only for what the schema accepts and leaves as it is; whatever is false goes to the schema, which decides. By test.
 *
 * Used by `decodeEvent`.
 */
import type { JournalHead } from "./JournalEvent.ts";

type Fields = Readonly<Record<string, unknown>>;
type Check = (value: unknown) => boolean;

export function isPlainJournalHead(head: Fields): head is Fields & JournalHead {
  let required = 0;
  for (const name in head) {
    if (HEAD.get(name)?.(head[name]) !== true) return false;
    if (HEAD_REQUIRED.has(name)) required++;
  }
  return required === HEAD_REQUIRED.size;
}

const isString: Check = (value) => typeof value === "string";
const isNumber: Check = (value) => typeof value === "number";
const isTrue: Check = (value) => value === true;
const isList: Check = (value) => Array.isArray(value);
const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isListOf =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);
const isOneOf = (...values: ReadonlyArray<unknown>): Check => {
  const all = new Set(values);
  return (value) => all.has(value);
};
/** Every field of the value is known, and right. */
const hasOnly =
  (checks: ReadonlyMap<string, Check>): Check =>
  (value) => {
    if (!isFields(value)) return false;
    for (const name in value) if (checks.get(name)?.(value[name]) !== true) return false;
    return true;
  };
const isStrings = isListOf(isString);

function isRecord(value: unknown): boolean {
  if (!isFields(value)) return false;
  for (const name in value) if (typeof value[name] !== "string") return false;
  return true;
}

const isRows = hasOnly(
  new Map([
    ["put", isList],
    ["del", isStrings],
  ]),
);

const hasCauseFields = hasOnly(
  new Map<string, Check>([
    [
      "kind",
      isOneOf(
        "webhook", "request", "connect", "message", "close", "rpc", "queue", "schedule", "mail",
        "workflow", "start", "background",
      ),
    ],
    ["id", isString], ["seq", isNumber], ["attempt", isNumber], ["time", isNumber],
    ["provider", isString], ["type", isString], ["method", isString], ["url", isString],
    ["headers", isRecord], ["entity", isString], ["body", isString], ["bodyBase64", isString],
  ]),
); // prettier-ignore

const isCause: Check = (value) => hasCauseFields(value) && (value as Fields)["kind"] !== undefined;

/** One way to change it, and nothing beside. */
function isStateChange(value: unknown): boolean {
  if (!isFields(value)) return false;
  const names = Object.keys(value);
  if (names.length !== 1) return false;
  if (names[0] === "set") return true;
  if (names[0] === "clear") return value["clear"] === true;
  const { splice } = value;
  return (
    Array.isArray(splice) &&
    splice.length === 3 &&
    isNumber(splice[0]) &&
    isNumber(splice[1]) &&
    isString(splice[2])
  );
}

const hasTurnFields = hasOnly(
  new Map<string, Check>([
    ["cause", isCause],
    ["state", isStateChange],
    ["sql", isStrings],
    ["done", isStrings],
    ["begun", isTrue],
    ["dead", isTrue],
    ["error", isString],
  ]),
);

const isTurn: Check = (value) => hasTurnFields(value) && (value as Fields)["cause"] !== undefined;

const HEAD: ReadonlyMap<string, Check> = new Map<string, Check>([
  ["id", isString],
  ["agent", (value) => isStrings(value) && (value as ReadonlyArray<unknown>).length === 2],
  ["kind", isOneOf("turns", "claimed", "destroyed")],
  ["host", isString],
  ["epoch", isNumber],
  ["time", isNumber],
  ["turns", isListOf(isTurn)],
  ["after", isNumber],
  ["pages", isNumber],
  ["schedules", isRows],
  ["queue", isRows],
]);
const HEAD_REQUIRED: ReadonlySet<string> = new Set([
  "id", "agent", "kind", "host", "epoch", "time", "turns",
]); // prettier-ignore
