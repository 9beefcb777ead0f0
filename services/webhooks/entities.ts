/**
 * The sources of a webhook's agent name: the four of `interface.md` §4.1. Users build them in their
 * routes; the gateway resolves them after verification. The transforms are in `slug`.
 *
 * 1. `resolve` never throws, whatever a caller sends, and even when the transform throws.
 * 2. Two entities never share an agent by accident: a number that JSON cannot represent exactly and
 *    a string that is not well-formed Unicode are refused, not rounded or replaced. Where `slug`
 *    merges two entities, the agent refuses the second (`core/webhook/sluggedEntity`).
 */
import { optionsFault } from "../../core/errors/checkOptions.ts";
import { INVALID_JSON } from "../../core/webhook/answers.ts";
import {
  InvalidWebhook,
  type EntityResult,
  type EntitySource,
  type WebhookRequest,
} from "../../core/webhook/WebhookRoute.ts";
import { AGENT_NAME_BYTES_MAX } from "../../schemas/Address.ts";
import { isSubAgentName } from "../../schemas/AgentPath.ts";
import { parsedBody, valueAt } from "./verifier/ParsedBody.ts";
import { slug, type Transform } from "./slug.ts";

/** Options of `body`, `path` and `header`. */
export interface EntityOptions {
  /**
   * Whether the value is accepted although the provider's signature does not cover it. Anyone who
   * can send one valid request can then send it to any agent. For URLs that are secret, or that
   * your own proxy sets. Default false.
   */
  readonly trust?: boolean;
  /** Name of the value in a 400 `Missing <name>`. Default: from the field, parameter or header. */
  readonly name?: string;
}

type Arguments =
  | readonly [transform?: Transform, options?: EntityOptions]
  | readonly [options: EntityOptions, transform?: Transform];

/**
 * A field of the body (JSON, or a form) by dotted path, array indexes included:
 * `body("repository.full_name", slug)`. Strings and numbers name an agent; any other value, and "",
 * is answered 400 `Missing <name>`, where the name is the first of one or two segments
 * (`repository`) and the last of more (`customer`). Throws `InvalidWebhook` for a path with an
 * empty segment.
 */
export function body(field: string, ...args: Arguments): EntitySource {
  const segments = typeof field === "string" ? field.split(".") : [""];
  if (segments.includes(""))
    throw new InvalidWebhook({
      message: `body("${field}"): use a field's path, as in "repository.full_name"`,
    });
  const label = segments.length <= 2 ? segments[0]! : segments.at(-1)!;
  return source("body", field, label, args, (request) => {
    const parsed = parsedBody(request);
    return parsed._tag === "Unreadable"
      ? { invalid: INVALID_JSON }
      : { value: valueAt(parsed, field) };
  });
}

/**
 * A parameter of the route's path: `path("customer")` for `/webhooks/stripe/:customer`. Few
 * signatures cover the path: without one that does, `webhook` requires `trust`.
 */
export function path(parameter: string, ...args: Arguments): EntitySource {
  return source("path", parameter, parameter, args, ({ params }) => ({
    value: Object.hasOwn(params, parameter) ? params[parameter] : undefined,
  }));
}

/**
 * A request header. One that was sent twice is answered 400, since it names two agents. Throws
 * `InvalidWebhook` for a string that can't be a header's name.
 */
export function header(name: string, ...args: Arguments): EntitySource {
  if (typeof name !== "string" || !isHeaderName(name))
    throw new InvalidWebhook({ message: `header("${name}"): not a header name` });
  const key = name.toLowerCase();
  return source("header", key, key, args, ({ headers }) => {
    const values = Object.hasOwn(headers, key) ? headers[key] : undefined;
    return values !== undefined && values.length > 1
      ? { invalid: `Header ${key} was sent ${values.length} times` }
      : { value: values?.[0] };
  });
}

/** Whether a string can be a header's name (RFC 9110). */
export const isHeaderName = (name: string): boolean => /^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name);

/** One agent for all requests of the route. Throws `InvalidWebhook` for a bad agent name. */
export function constant(name: string): EntitySource {
  const result = named(name, "name");
  if (result._tag !== "Entity")
    throw new InvalidWebhook({
      message: `constant("${name.slice(0, 40)}"): ${result._tag === "Invalid" ? result.message : "a name has at least one character"}`,
    });
  return { from: "constant", trust: false, key: name, resolve: () => result };
}

const OPTIONS: ReadonlySet<string> = new Set<keyof EntityOptions>(["trust", "name"]);

/** The value found, or why the request can't be read. */
type Reading = { readonly value: unknown } | { readonly invalid: string };

function source(
  from: "body" | "path" | "header",
  key: string,
  label: string,
  args: Arguments,
  read: (request: WebhookRequest) => Reading,
): EntitySource {
  let transform: Transform | undefined;
  let options: EntityOptions = {};
  for (const argument of args) {
    if (typeof argument === "function") transform = argument;
    else if (argument !== undefined) options = argument;
  }
  const fault = optionsFault(options, OPTIONS);
  if (fault !== undefined)
    throw new InvalidWebhook({
      message: `${from}("${key}"): use a transform like escapedSlug, and options: ${fault}`,
    });
  const field = options.name ?? label;
  return {
    from,
    trust: options.trust ?? false,
    key,
    resolve: (request) => {
      const reading = read(request);
      if ("invalid" in reading) return { _tag: "Invalid", message: reading.invalid };
      const text = textOf(reading.value, field);
      if (typeof text !== "string") return text;
      if (transform === undefined || text === "") return named(text, field);
      try {
        const entity = named(transform(text), field);
        return transform === slug && entity._tag === "Entity"
          ? { ...entity, slugged: text }
          : entity;
      } catch {
        // Rule 1. The user's function rejects this value; the answer names the field.
        return { _tag: "Invalid", message: `Invalid ${field}` };
      }
    },
  };
}

function textOf(value: unknown, field: string): string | EntityResult {
  if (typeof value === "string") return value.isWellFormed() ? value : illFormed(field);
  if (typeof value !== "number" || !Number.isFinite(value)) return { _tag: "Missing", field };
  if (Math.abs(value) > Number.MAX_SAFE_INTEGER)
    return {
      _tag: "Invalid",
      message: `Invalid ${field}: a number past 2^53 is not exact; send it as a string`,
    };
  return String(value);
}

const illFormed = (field: string): EntityResult => ({
  _tag: "Invalid",
  message: `Invalid ${field}: not well-formed Unicode`,
});

function named(name: unknown, field: string): EntityResult {
  if (typeof name !== "string" || name === "") return { _tag: "Missing", field };
  if (!name.isWellFormed()) return illFormed(field);
  if (isSubAgentName(name))
    return { _tag: "Invalid", message: `Invalid ${field}: an agent's name can't begin with "/"` };
  const bytes = Buffer.byteLength(name);
  if (bytes > AGENT_NAME_BYTES_MAX)
    return {
      _tag: "Invalid",
      message: `Invalid ${field}: ${bytes} bytes long; the limit is ${AGENT_NAME_BYTES_MAX} bytes of UTF-8`,
    };
  return { _tag: "Entity", name };
}
