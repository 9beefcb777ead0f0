/**
 * Declared routes for mail (`email: [ … ]` beside `webhooks`): an address pattern, the agent class,
 * and the agent's name. Addresses that match no route are refused at `RCPT TO`, before the message
 * is sent.
 */
import * as Data from "effect/Data";
import type { AgentEmail } from "./AgentEmail.ts";
import { splitAddress, type EmailResolver, type EmailTarget } from "./EmailResolver.ts";

/** A declared route for mail, made by `emailRoute`. */
export interface EmailRoute {
  /** As it was written. */
  readonly address: string;
  /** Name of the agent class. */
  readonly agent: string;
  /** Whether the route accepts an envelope recipient. */
  readonly matches: (recipient: string) => boolean;
  /** Resolves to null if the message is not for this route after all. */
  readonly target: (email: AgentEmail) => Promise<EmailTarget | null> | EmailTarget | null;
}

/** Settings of `emailRoute`. */
export interface EmailRouteSettings {
  /** The class, or its name. */
  readonly agent: string | { readonly name: string };
  /**
   * The agent's name. Default: what `*` matches in the address, else the whole part before the `@`;
   * in lower case, since senders vary the case. Null refuses the message.
   */
  readonly entity?: string | ((email: AgentEmail) => string | null | Promise<string | null>);
}

/** The third argument of a module's `email`. */
export interface EmailContext {
  /** Delays the process's end until `promise` settles, up to 10 s. A rejection is logged. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
  /** Does nothing: it is here for modules written for other runtimes. */
  readonly passThroughOnException: () => void;
}

/** The route is invalid; `message` says why. */
export class InvalidEmailRoute extends Data.TaggedError("InvalidEmailRoute")<{
  readonly message: string;
}> {}

/** An entry of `email: [ … ]`: a route, or a resolver, which needs the message to decide. */
export type EmailEntry = EmailRoute | EmailResolver;

/**
 * `emailRoute("support+*@example.com", { agent: Ticket })`. One `*` in the part before the `@`
 * matches any text without `@`; a domain of `*` matches every domain. Case is ignored, and an
 * international domain may be written in either form. Throws `InvalidEmailRoute`.
 */
export function emailRoute(address: string, settings: EmailRouteSettings): EmailRoute {
  const wrong = (why: string) =>
    new InvalidEmailRoute({ message: `emailRoute("${address}"): ${why}` });
  const { agent, entity } = settings;
  const className = typeof agent === "string" ? agent : agent?.name;
  if (!className) throw wrong("agent: must be a class, or its name as a string");
  const [, local, domain, more] = /^([^@]+)@([^@]+)(.*)$/.exec(address) ?? [];
  if (local === undefined || domain === undefined || more !== "")
    throw wrong(
      "write it as local@domain; either may be *, and the part before the @ may contain one *",
    );
  if (local.split("*").length > 2) throw wrong("the part before the @ may contain only one *");
  if (domain !== "*" && domain.includes("*")) throw wrong("the domain must be complete, or *");
  const domainPattern = domain === "*" ? ".+" : literal(asciiDomain(domain));
  const pattern = new RegExp(
    `^${local.split("*").map(literal).join("(.+)")}@${domainPattern}$`,
    "i",
  );
  const entityOf = async (email: AgentEmail): Promise<string | null> => {
    if (typeof entity === "string") return entity;
    if (entity !== undefined) return entity(email);
    const star = pattern.exec(asciiAddress(email.to))?.[1] ?? splitAddress(email.to)?.local;
    return star === undefined ? null : star.toLowerCase();
  };
  return {
    address,
    agent: className,
    matches: (recipient) =>
      splitAddress(recipient) !== undefined && pattern.test(asciiAddress(recipient)),
    target: async (email) => {
      const agentId = await entityOf(email);
      return agentId === null ? null : { agentName: className, agentId };
    },
  };
}

/** The address with its domain in the form that DNS has: `xn--mnchen-3ya.de` for `münchen.de`. */
function asciiAddress(address: string): string {
  const at = address.lastIndexOf("@") + 1;
  return address.slice(0, at) + asciiDomain(address.slice(at));
}

function asciiDomain(domain: string): string {
  // oxlint-disable-next-line no-control-regex
  if (/^[\0-\x7f]*$/.test(domain)) return domain;
  const url = `http://${domain}`;
  return URL.canParse(url) ? new URL(url).hostname : domain;
}

const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Returns a resolver whose first entry with an agent for the message decides. */
export const resolverOf =
  (entries: ReadonlyArray<EmailEntry>): EmailResolver =>
  async (email, env) => {
    for (const entry of entries) {
      const target =
        typeof entry === "function"
          ? await entry(email, env)
          : entry.matches(email.to)
            ? await entry.target(email)
            : null;
      if (target !== null && target !== undefined) return target;
    }
    return null;
  };

/** Whether an entry may accept this address. A resolver may: it needs the message to decide. */
export const mayKnow = (entries: ReadonlyArray<EmailEntry>, recipient: string): boolean =>
  entries.some((entry) => typeof entry === "function" || entry.matches(recipient));
