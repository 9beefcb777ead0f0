/**
 * A webhook's body as fields: JSON, or a form whose `payload` field may contain JSON (Slack's
 * interactions, GitHub's form content type). Read by entity sources and, for dedup ids and event
 * types, by verifiers; only once the signature over the raw bytes is verified.
 *
 * 1. A body is parsed at most once per request, on first use. Only the last request's body is kept,
 *    so a request is read completely before the next one.
 * 2. Only own properties of objects and indexes of arrays are followed. A body's `__proto__` or
 *    `constructor` is data; JavaScript's own are out of reach.
 * 3. The bytes alone say whether it is JSON or a form. No provider signs the content type, so
 *    whoever sends a captured request again chooses it, and would choose how the body is read.
 */
import type { WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";

export type ParsedBody =
  | { readonly _tag: "Json"; readonly value: unknown }
  /** `payload`: the JSON value of the field of that name; undefined when there is none. */
  | { readonly _tag: "Form"; readonly fields: URLSearchParams; readonly payload: unknown }
  /** Neither JSON nor a form in UTF-8. */
  | { readonly _tag: "Unreadable" };

/** The last request's (rule 1). A `WeakMap` costs the collector more than the parsing does. */
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

/**
 * The content type of the body, if the request's own is wrong about it (rule 3). Undefined: it is
 * right, or the body is unreadable. Read only once the signature is verified.
 */
export function contentTypeOf(request: WebhookRequest): string | undefined {
  const sent = request.headers["content-type"]?.join() ?? "";
  if (/form/i.test(sent)) return parsedBody(request)._tag === "Json" ? JSON_TYPE : undefined;
  // Nearly every body is JSON in a bracket: it is not parsed here if nothing else reads it.
  if (!/json/i.test(sent) || OPENS_JSON.has(request.body[0])) return undefined;
  return parsedBody(request)._tag === "Form" ? FORM_TYPE : undefined;
}

const JSON_TYPE = "application/json";
const FORM_TYPE = "application/x-www-form-urlencoded";
const OPENS_JSON: ReadonlySet<number | undefined> = new Set(Buffer.from("[{"));

function parse(request: WebhookRequest): ParsedBody {
  const text = textOf(request.body);
  if (text === undefined) return { _tag: "Unreadable" };
  const json = jsonOf(text);
  if (json !== undefined) return { _tag: "Json", value: json };
  if (!isForm(text)) return { _tag: "Unreadable" };
  const fields = new URLSearchParams(text);
  // A form may have a field of this name that isn't JSON. It is then an ordinary field.
  return { _tag: "Form", fields, payload: jsonOf(fields.get("payload") ?? "") };
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Undefined for a text that is not JSON, which has no such value. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * A form begins with the name of a field. JSON that was cut off, XML and multipart begin with a
 * bracket, a quotation mark or two hyphens.
 */
const isForm = (text: string): boolean => text.includes("=") && !/^(?:[\s<{["]|--)/.test(text);
