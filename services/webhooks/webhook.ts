/**
 * `webhook(path, options)`: declares one route. Every fault of a declaration is reported here, when
 * the module is loaded, not when the first request arrives. The gateway serves the routes
 * (`RouteTable`); hosts run the agents that they name.
 */
import { optionsFault } from "../../core/errors/checkOptions.ts";
import { shownValue } from "../../core/errors/shownValue.ts";
import { isFieldPath } from "../../core/redaction/FieldRedaction.ts";
import { Redaction, type RedactNames } from "../../core/redaction/Redaction.ts";
import { parsePathPattern, type PathSegment } from "../../core/webhook/RouteTable.ts";
import { isHeaderName } from "./entities.ts";
import {
  InvalidWebhook,
  WEBHOOK_BODY_BYTES_MAX,
  type EntitySource,
  type Verifier,
  type WebhookRoute,
  type WebhookTarget,
} from "../../core/webhook/WebhookRoute.ts";

import { readWhen, type WebhookFilter } from "./when.ts";

/** A class of agents, or its name. */
export type AgentReference = string | (abstract new (...args: never[]) => object);

/** Options of `webhook`. */
export interface WebhookOptions {
  /** The agent class that receives the route's webhooks, or its name. */
  readonly agent: AgentReference;
  /** The verifier of the sender: `github({ secret })`, …, or `unsigned()`. */
  readonly verify: Verifier;
  /** The source of the agent's name: `body(…)`, `path(…)`, `header(…)` or `constant(…)`. */
  readonly entity: EntitySource;
  /** Which events the agent takes. The others are answered 200 and not stored. Default: all. */
  readonly when?: WebhookFilter;
  /**
   * Further agents that receive the route's webhooks. An event that several agents take is stored
   * for each, takes effect once in each, and is answered 200 when it is stored. Default: none.
   */
  readonly also?: ReadonlyArray<Pick<WebhookOptions, "agent" | "entity" | "when">>;
  /**
   * `agent`: the caller receives the agent's answer, or 202 `Accepted` once `deadlineMs` has
   * passed. `stored`: 202 as soon as the request is stored. Default `agent`.
   */
  readonly answer?: "agent" | "stored";
  /** Milliseconds to wait for the agent's answer: 1 to 60,000. Default: the provider's. */
  readonly deadlineMs?: number;
  /**
   * Size of the largest body in bytes; a larger one is answered 413. Default and maximum: 25 MiB.
   * The default of `unsigned()` routes is 4 MiB.
   */
  readonly bodyBytesMax?: number;
  /**
   * Headers and query parameters that carry credentials, besides the usual names and the verifier's
   * own. They are not stored, and the agent does not see them: the header is removed, the
   * parameter's value becomes `REDACTED`. A list, or `body`: fields of the body, which the agent
   * sees, and which are `REDACTED` in all that is kept of the webhook: `["customer.email",
   * "card.*"]`. Default: none.
   */
  readonly redact?: RedactNames | ReadonlyArray<string>;
}

type Target = Pick<WebhookOptions, "agent" | "entity" | "when">;
const OPTIONS: ReadonlySet<string> = new Set<keyof WebhookOptions>([
  "agent", "verify", "entity", "answer", "when", "also", "deadlineMs", "bodyBytesMax", "redact",
]); // prettier-ignore
const TARGET: ReadonlySet<string> = new Set<keyof Target>(["agent", "entity", "when"]);
const REDACT: ReadonlySet<string> = new Set<keyof RedactNames>(["headers", "query", "body"]);

/** No known provider waits longer than 30 s. Twice that covers other tools. */
const DEADLINE_MS_MAX = 60_000;
/**
 * Gateways parse these bodies for anybody. JSON of as many bytes that names each of its values
 * differently takes half a second of their thread.
 */
const UNSIGNED_BODY_BYTES_USUAL = 4 * 1024 * 1024;

/**
 * Declares a route, for the list of routes that a module exports. `path` is like
 * `/webhooks/stripe/:customer`; it matches the whole path, in its case. Throws `InvalidWebhook`,
 * whose message names the route, the fault and the remedy.
 */
export function webhook(path: string, options: WebhookOptions): WebhookRoute {
  const wrong = (why: string) => new InvalidWebhook({ message: `webhook("${path}"): ${why}` });
  const segments = parsePathPattern(path);
  const known = (given: unknown, names: ReadonlySet<string>, of = "") => {
    const fault = optionsFault(given, names);
    if (fault !== undefined) throw wrong(of + fault);
  };
  known(options, OPTIONS);
  const { verify: verifier, answer = "agent" } = options;
  if (typeof verifier?.verify !== "function")
    throw wrong("verify: use a verifier like github({ secret }), or unsigned()");
  if (answer !== "agent" && answer !== "stored")
    throw wrong(`answer must be "agent" or "stored", not "${String(answer)}"`);
  const target = (given: Target, of = ""): WebhookTarget => {
    const refuse = (why: string) => wrong(of + why);
    if (typeof given.entity?.resolve !== "function")
      throw refuse(`entity: use a source like body("repository.full_name", escapedSlug)`);
    const refusal = refuseEntity(given.entity, verifier, segments);
    if (refusal !== undefined) throw refuse(refusal);
    const when = readWhen(given.when, refuse);
    return {
      agent: agentName(given.agent, refuse),
      entity: given.entity,
      ...(when !== undefined && { when }),
    };
  };
  const first = target(options);
  const { also = [], redact = [] } = options;
  if (!Array.isArray(also)) throw wrong("also: use a list of { agent, entity, when }");
  const others = (also as ReadonlyArray<Target>).map((each, index) => {
    known(each, TARGET, `also[${index}]: `);
    return target(each, `also[${index}]: `);
  });
  if (!Array.isArray(redact)) known(redact, REDACT, "redact: ");

  const usualBodyBytes =
    verifier.unsigned === true ? UNSIGNED_BODY_BYTES_USUAL : WEBHOOK_BODY_BYTES_MAX;
  const within = (name: "deadlineMs" | "bodyBytesMax", usual: number, max: number): number => {
    const value: unknown = options[name] ?? usual;
    if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= max) return Number(value);
    throw wrong(`${name} is ${shownValue(value)}: use a whole number from 1 to ${max}`);
  };
  return {
    ...first,
    ...(others.length > 0 && { also: others }),
    path,
    verifier,
    answer,
    deadlineMs: within("deadlineMs", verifier.deadlineMs, DEADLINE_MS_MAX),
    bodyBytesMax: within("bodyBytesMax", usualBodyBytes, WEBHOOK_BODY_BYTES_MAX),
    ...redactionOf(verifier, redact, wrong),
  };
}

function redactionOf(
  { secretHeaders = [] }: Verifier,
  given: RedactNames | ReadonlyArray<string>,
  wrong: (why: string) => InvalidWebhook,
): Pick<WebhookRoute, "redaction" | "redactedFields"> {
  const redact: RedactNames = isList(given) ? { body: given } : given;
  const listed = (option: keyof RedactNames, isName: (name: string) => boolean) => {
    const names: unknown = redact[option] ?? [];
    if (Array.isArray(names) && names.every((n) => typeof n === "string" && isName(n)))
      return names as ReadonlyArray<string>;
    const like = option === "body" ? '["customer.email", "card.*"]' : '["x-own-token"]';
    throw wrong(`redact.${option}: use a list of names like ${like}`);
  };
  const redactedFields = listed("body", isFieldPath);
  return {
    redaction: new Redaction({
      headers: [...secretHeaders, ...listed("headers", isHeaderName)],
      query: listed("query", (name) => name !== ""),
    }),
    ...(redactedFields.length > 0 && { redactedFields }),
  };
}

const isList = (value: unknown): value is ReadonlyArray<string> => Array.isArray(value);

function agentName(agent: AgentReference, wrong: (why: string) => InvalidWebhook): string {
  const name = typeof agent === "function" ? agent.name : agent;
  if (typeof name === "string" && /^[A-Za-z_$][\w$]*$/.test(name)) return name;
  throw wrong(
    typeof agent === "function"
      ? "agent: the class has no name; declare it with one, or pass the name as a string"
      : "agent: must be a class, or its name as a string",
  );
}

const COVERED_BY = { body: "body", path: "url", header: "headers" } as const;

/** Why this entity must not choose the agent; undefined when it may choose. */
function refuseEntity(
  entity: EntitySource,
  verifier: Verifier,
  segments: ReadonlyArray<PathSegment>,
): string | undefined {
  const { from, key = "…" } = entity;
  if (from === "constant") return undefined;
  const written = `${from}("${key}")`;
  if (
    from === "path" &&
    entity.key !== undefined &&
    !segments.some((s) => s._tag === "Parameter" && s.name === key)
  )
    return `entity ${written}: the path has no parameter ":${key}"`;
  if (entity.trust || verifier.signs.includes(COVERED_BY[from])) return undefined;
  const cause =
    verifier.signs.length === 0
      ? `${verifier.provider} checks no signature, so any caller could choose the agent`
      : `${verifier.provider} signs the ${verifier.signs.join(" and the ")} only, so the ${from} can be changed ` +
        "without invalidating the signature, and the request sent to any agent";
  return (
    `entity ${written}: ${cause}. ` +
    (verifier.signs.includes("body")
      ? "Take it from the body, or accept that with "
      : "Accept that with ") +
    `${from}("${key}", { trust: true })`
  );
}
