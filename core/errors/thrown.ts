/**
 * Thrown values as text, for logs, messages and records. Code can throw anything: an object without
 * a prototype, an error whose message is a getter that throws. What handles such a value must not
 * fail over it, so no function of this file throws, and none returns more than `CHARS_MAX`
 * characters: a message with a whole document in it would be stored with the event, the dead letter
 * and each line of the log.
 */

const CHARS_MAX = 64 * 1024; // far more than a stack has
/** Of the end, which is where the frames of a stack are. */
const TAIL_CHARS = CHARS_MAX / 4;
/** Room for the remark, so that a text that was cut is not cut again. */
const REMARK_CHARS = 64;
const REMARK = /( … \d+ characters left out … )/;

/** For a value that has no text. */
const UNREADABLE = "a value that can't be read as text";

/** The value, or an error in place of one that can't be looked at, such as a revoked proxy. */
export function readable(thrown: unknown): unknown {
  try {
    void (thrown instanceof Error);
    return thrown;
  } catch {
    return new Error(UNREADABLE);
  }
}

function read(part: () => unknown): string {
  try {
    return bounded(String(part()));
  } catch {
    return UNREADABLE;
  }
}

function bounded(text: string): string {
  if (text.length <= CHARS_MAX) return text;
  const head = text.slice(0, CHARS_MAX - TAIL_CHARS - REMARK_CHARS);
  const remark = ` … ${text.length - head.length - TAIL_CHARS} characters left out … `;
  // Half of a surrogate pair would be no text.
  return (head + remark + text.slice(-TAIL_CHARS)).toWellFormed();
}

/** The text without so many characters on either side of each of its cuts. */
export function withoutCutEdges(text: string, chars: number): string {
  const parts = text.split(REMARK);
  const last = parts.length - 1;
  const trimmed = parts.map((part, n) => {
    if (n % 2 === 1) return part; // a remark
    return part.slice(
      n === 0 ? 0 : chars,
      n === last ? undefined : Math.max(0, part.length - chars),
    );
  });
  return trimmed.join("");
}

/** The message of an error; of another value its text. */
export const messageOf = (thrown: unknown): string =>
  read(() => (thrown instanceof Error ? thrown.message : textOf(thrown)));

/** The code of an error, such as that of Node's for several addresses, which has no message. */
export const codeOf = (thrown: unknown): string =>
  read(() => (thrown instanceof Error ? ((thrown as { code?: unknown }).code ?? "") : ""));

/** A reader recognizes an object by so many names of its fields. */
const FIELDS_MAX = 10;

/**
 * The text of a value; of an object like `{ code: 7 }`, which has none, its `message` or the names
 * of its fields. Their values are left out, since they may be a provider's whole answer.
 */
function textOf(thrown: unknown): string {
  const text = String(thrown);
  if (text !== "[object Object]") return text;
  const { message } = thrown as { readonly message?: unknown };
  if (typeof message === "string") return message;
  const names = Object.keys(thrown as object).slice(0, FIELDS_MAX);
  return `an object with ${names.length === 0 ? "no fields" : `the fields ${names.join(", ")}`}`;
}

/** Causes of a cause that are shown: a chain may lead back to its beginning. */
const CAUSES_MAX = 4;

/** Between an error's stack and its cause's. */
export const CAUSED_BY = "\n  caused by: ";

/**
 * For a log: the stack of an error, of what has none the message, and those of its causes. Node's
 * `fetch` says in the cause alone why it failed.
 */
export function stackOf(thrown: unknown): string {
  return bounded([thrown, ...causesOf(thrown)].map(ownStackOf).join(CAUSED_BY));
}

/** The cause of an error, that one's cause, and so on. */
export function causesOf(thrown: unknown): ReadonlyArray<unknown> {
  const causes: unknown[] = [];
  let cause = causeOf(thrown);
  for (; cause !== undefined && causes.length < CAUSES_MAX; cause = causeOf(cause))
    causes.push(cause);
  return causes;
}

/** As `stackOf`, without the causes. */
export const ownStackOf = (thrown: unknown): string =>
  read(() => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : textOf(thrown)));

function causeOf(thrown: unknown): unknown {
  try {
    return thrown instanceof Error ? thrown.cause : undefined;
  } catch {
    return undefined;
  }
}

export const nameOf = (thrown: Error): string => read(() => thrown.name);
