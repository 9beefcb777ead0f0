/**
 * Filters of webhook targets: `when` of a route, as a function over the parsed body or as a match
 * by paths. Read when the module is loaded; the gateway asks the result after verification.
 */
import type { InvalidWebhook, WebhookRequest } from "../../core/webhook/WebhookRoute.ts";
import { parsedBody, valueAt, type ParsedBody } from "./verifier/ParsedBody.ts";

/** The request beside its body. */
export interface FilteredRequest {
  readonly url: string;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
}

/** A method's type, so that a function may declare the fields of the event that it reads. */
type FilterFunction = { f(event: unknown, request: FilteredRequest): boolean }["f"];

type Scalar = string | number | boolean | null;

/**
 * Which events a target takes. A function receives the parsed body (JSON, or the fields of a form)
 * and returns whether the target takes it; it must be synchronous. An object names values by their
 * path in the body, and all have to match: `{ action: "opened", "pull_request.draft": false, ref:
 * ["a", "b"] }`, where a list matches any of its values. A body that can't be parsed is never
 * filtered: it is refused as it is without a filter.
 */
export type WebhookFilter =
  FilterFunction | Readonly<Record<string, Scalar | ReadonlyArray<Scalar>>>;

/** Throws what `wrong` makes for a value that is no filter. */
export function readWhen(
  when: WebhookFilter | undefined,
  wrong: (why: string) => InvalidWebhook,
): ((request: WebhookRequest) => boolean) | undefined {
  if (when === undefined) return undefined;
  if (typeof when === "function")
    return (request) => {
      const parsed = parsedBody(request);
      if (parsed._tag === "Unreadable") return true;
      const answer: unknown = when(eventOf(parsed), request);
      if (typeof answer === "boolean") return answer;
      throw new TypeError(`when returned ${describe(answer)}: it must return true or false`);
    };
  if (typeof when !== "object" || when === null || Array.isArray(when))
    throw wrong(`when: use a function, or values by path like { action: "opened" }`);
  const wanted = Object.entries(when).map(([path, value]) => {
    const values = Array.isArray(value) ? (value as ReadonlyArray<unknown>) : [value];
    if (path === "" || path.split(".").includes("") || !values.every(isScalar))
      throw wrong(`when["${path}"]: use a text, a number, true, false, null, or a list of these`);
    return { path, values };
  });
  return (request) => {
    const parsed = parsedBody(request);
    if (parsed._tag === "Unreadable") return true;
    return wanted.every(({ path, values }) => values.includes(valueAt(parsed, path)));
  };
}

const eventOf = (parsed: Exclude<ParsedBody, { readonly _tag: "Unreadable" }>): unknown =>
  parsed._tag === "Json" ? parsed.value : (parsed.payload ?? Object.fromEntries(parsed.fields));

const isScalar = (value: unknown): boolean =>
  value === null || ["string", "number", "boolean"].includes(typeof value);

const describe = (value: unknown): string =>
  value instanceof Promise ? "a promise" : typeof value;
