/**
 * A webhook's body as fields: JSON, or a form whose `payload` field may contain JSON (Slack's
 * interactions, GitHub's form content type). Read by entity sources and, for dedup ids and event
 * types, by verifiers; only once the signature over the raw bytes is verified.
 *
 * 1. A body is parsed at most once per request, on first use. Only the last request's body is kept,
 *    so a request is read completely before the next one.
 * 2. Only own properties of objects and indexes of arrays are followed. A body's `__proto__` or
 *    `constructor` is data; JavaScript's own are out of reach.
 */
import type { WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";

export type ParsedBody =
  | { readonly _tag: "Json"; readonly value: unknown }
  /** `payload`: the JSON value of the field of that name; undefined when there is none. */
  | { readonly _tag: "Form"; readonly fields: URLSearchParams; readonly payload: unknown }
  /** Neither a form nor JSON in UTF-8. */
  | { readonly _tag: "Unreadable" };

/**
 * The last request's (rule 1). A `WeakMap` costs the garbage collector more than the parsing does.
 */
let last: { readonly request: WebhookRequest; readonly parsed: ParsedBody } | undefined;

/** Fatal: a body that is not UTF-8 would otherwise name agents with U+FFFD in their names. */
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });
const INDEX = /^(?:0|[1-9]\d{0,9})$/;

/** Never throws. Returns the same object for the same request. */
export function parsedBody(request: WebhookRequest): ParsedBody {
  if (last?.request !== request) last = { request, parsed: parse(request) };
  return last.parsed;
}

/**
 * The value at a dotted path like `data.object.customer` or `items.0.id`; undefined when it does
 * not exist. In a form, `payload`'s JSON is searched first, then the field named by the whole path.
 */
export function valueAt(parsed: ParsedBody, path: string): unknown {
  switch (parsed._tag) {
    case "Json":
      return follow(parsed.value, path);
    case "Form":
      return follow(parsed.payload, path) ?? parsed.fields.get(path) ?? undefined;
    case "Unreadable":
      return undefined;
  }
}

function follow(root: unknown, path: string): unknown {
  let value = root;
  for (const segment of path.split(".")) {
    if (typeof value !== "object" || value === null) return undefined;
    if (Array.isArray(value) ? !INDEX.test(segment) : !Object.hasOwn(value, segment))
      return undefined;
    value = (value as Readonly<Record<string, unknown>>)[segment];
  }
  return value;
}

function parse(request: WebhookRequest): ParsedBody {
  try {
    const text = strictUtf8.decode(request.body);
    const contentType = request.headers["content-type"]?.[0] ?? "";
    if (!/^\s*application\/x-www-form-urlencoded\b/i.test(contentType))
      return { _tag: "Json", value: JSON.parse(text) };
    const fields = new URLSearchParams(text);
    return { _tag: "Form", fields, payload: payloadOf(fields) };
  } catch {
    // Not UTF-8, or not JSON. The sender is answered 400 without details.
    return { _tag: "Unreadable" };
  }
}

function payloadOf(fields: URLSearchParams): unknown {
  const payload = fields.get("payload");
  if (payload === null) return undefined;
  try {
    return JSON.parse(payload);
  } catch {
    // A form may have a field of this name that isn't JSON. It is then an ordinary field.
    return undefined;
  }
}
