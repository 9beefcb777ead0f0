/**
 * `routeAgentEmail` delivers a message to the agent that a resolver names (`protocol.md` §8), for a
 * module's `email(message, env)`. It resolves once the message is stored in that agent's inbox;
 * `onEmail` runs later.
 */
import { camelCaseToKebabCase } from "../../schemas/Address.ts";
import { AgentNamespace } from "./AgentNamespace.ts";
import { rawBytes, ReceivedEmail, type AgentEmail, type RawEmail } from "../mail/AgentEmail.ts";
import type { EmailResolver } from "../mail/EmailResolver.ts";

/** The resolver named an agent that `env` does not have. The text is that of `protocol.md` §8. */
export class UnknownAgentNamespace extends Error {
  override readonly name = "UnknownAgentNamespace";
  readonly agentName: string;

  constructor(agentName: string, available: ReadonlyArray<string>) {
    super(
      `Agent namespace '${agentName}' not found in environment. Available agents: ${available.join(", ")}`,
    );
    this.agentName = agentName;
  }
}

/** Options of `routeAgentEmail`. */
export interface EmailRouteOptions<Env = unknown> {
  /** Chooses a message's agent, or null for none. */
  readonly resolver: EmailResolver<Env>;
  /** Called for a message that no agent accepts. Default: SMTP refuses it (550 5.1.1). */
  readonly onNoRoute?: (email: AgentEmail) => void | Promise<void>;
  /** This and the following as in `StubOptions`: accepted and ignored. */
  readonly props?: unknown;
  readonly locationHint?: string;
  readonly jurisdiction?: string;
  readonly routingRetry?: unknown;
}

/** A message that the app has built: its envelope, its bytes, and its actions. */
export interface BuiltEmail extends RawEmail {
  /** As `AgentEmail.setReject`. */
  setReject?(reason: string): void;
  /** As `AgentEmail.forward`; its result is ignored. */
  forward?(recipient: string, headers?: Headers): Promise<unknown>;
  /** Receives a `RawEmail`. The type `never` also admits functions that accept other forms. */
  reply?(message: never): Promise<unknown>;
}

/**
 * Rejects with the resolver's error, `UnknownAgentNamespace`, `InvalidAddress` for an invalid name,
 * and `MailNotStored`.
 */
export async function routeAgentEmail<Env = unknown>(
  given: AgentEmail | BuiltEmail,
  env: Env,
  options: EmailRouteOptions<Env>,
): Promise<void> {
  const email = "getRaw" in given ? given : await received(given);
  const target = await options.resolver(email, env);
  if (target === null || target === undefined) {
    if (options.onNoRoute !== undefined) return void (await options.onNoRoute(email));
    ReceivedEmail.noRoute(email);
    return;
  }
  const namespace = namespaceOf(target.agentName, env);
  const mail = {
    from: email.from,
    to: email.to,
    raw: await ReceivedEmail.rawOf(email),
    secureRouted: target._secureRouted ?? email._secureRouted ?? false,
  };
  // Only a signature that the resolver checked counts: the email's own may be another agent's.
  await namespace.takeMail(target.agentId, mail, { isSigned: target._secureRouted === true });
}

async function received(built: BuiltEmail): Promise<AgentEmail> {
  const { from, to } = built;
  return new ReceivedEmail(
    { from, to, raw: await rawBytes(built.raw), secureRouted: false },
    {
      reject: (reason) => built.setReject?.(reason),
      forward: async (recipient, headers) => void (await built.forward?.(recipient, headers)),
      reply: async (message) => void (await built.reply?.(message as never)),
      noRoute: () => built.setReject?.("Unknown address"),
    },
  );
}

function namespaceOf(agentName: string, env: unknown): AgentNamespace {
  const bindings = (env ?? {}) as Readonly<Record<string, unknown>>;
  const exact = Object.hasOwn(bindings, agentName) ? bindings[agentName] : undefined;
  if (exact instanceof AgentNamespace) return exact;
  const wanted = agentName.toLowerCase();
  const names: string[] = [];
  for (const [name, namespace] of Object.entries(bindings)) {
    if (!(namespace instanceof AgentNamespace)) continue;
    if (camelCaseToKebabCase(name) === wanted || name.toLowerCase() === wanted) return namespace;
    names.push(name);
  }
  throw new UnknownAgentNamespace(agentName, names);
}
