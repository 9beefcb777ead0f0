/**
 * The options of `testAgents`, and their check. `TestAgents` starts the installation with what
 * `readTestOptions` returns.
 */
import { checkOptions } from "../../core/errors/checkOptions.ts";
import { shownValue } from "../../core/errors/shownValue.ts";
import type { EmailEntry } from "../../core/mail/EmailRoute.ts";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import type { AgentConstructor, LoadedModule } from "../module/LoadedModule.ts";
import { agentClassOf, readModule } from "../module/readModule.ts";
import type { OutgoingHandler } from "./TestOutgoing.ts";

/** Options of `testAgents`. */
export interface TestAgentsOptions {
  /** The agent classes. */
  readonly agents?: ReadonlyArray<AgentConstructor>;
  /** Webhook routes, as in the module's default export. */
  readonly webhooks?: ReadonlyArray<WebhookRoute>;
  /** The module's own routing. Default: `routeAgentRequest`, then 404. */
  readonly fetch?: NonNullable<LoadedModule["fetch"]>;
  /** The module's mail handler or mail routes. */
  readonly email?: NonNullable<LoadedModule["email"]> | ReadonlyArray<EmailEntry>;
  /** A whole module instead of the four above: `import * as server from "./server.ts"`. */
  readonly module?: object;
  /** Secrets and settings, for verifiers and agents. */
  readonly env?: Readonly<Record<string, unknown>>;
  /** Seed of ids and of all randomness. Default 1. */
  readonly seed?: number;
  /** Virtual time at the start. Default 2025-01-01T00:00:00Z. */
  readonly now?: Date | string | number;
  /** The gateway's public URL. Default `http://localhost`. */
  readonly url?: string;
  /**
   * Answers the requests and mail that agents send. Default: answers webhooks and mail with 200,
   * and fails a `fetch`.
   */
  readonly outgoing?: OutgoingHandler;
}

const OPTIONS: ReadonlySet<string> = new Set<keyof TestAgentsOptions>([
  "agents", "webhooks", "fetch", "email", "module", "env", "seed", "now", "url", "outgoing",
]); // prettier-ignore

const URL_DEFAULT = "http://localhost";

interface ReadOptions {
  readonly module: LoadedModule;
  readonly env: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly startMs: number | undefined;
  /** Without a slash at its end. */
  readonly url: string;
  readonly outgoing: OutgoingHandler | undefined;
}

/** Throws `TypeError` for options that can't be used, and `ModuleError` for the module. */
export function readTestOptions(options: TestAgentsOptions): ReadOptions {
  checkOptions("testAgents", options, OPTIONS);
  const { env = {}, seed = 1, url = URL_DEFAULT, now, outgoing } = options;
  if (typeof env !== "object" || env === null) throw wrong("env", env, "an object of settings");
  if (typeof seed !== "number" || Number.isNaN(seed)) throw wrong("seed", seed, "a number");
  if (!isOrigin(url)) throw wrong("url", url, 'a URL such as "https://agents.example.com"');
  const startMs = now === undefined ? undefined : new Date(now).getTime();
  if (Number.isNaN(startMs)) throw wrong("now", now, "a time such as 2025-01-01T00:00:00Z");
  if (outgoing !== undefined) checkHandler("testAgents: outgoing", outgoing);
  const module = readModule(exportsOf(options), "the test's module");
  return { module, env, seed, startMs, url: url.replace(/\/$/, ""), outgoing };
}

/** Throws `TypeError`. `what` names the handler. */
export function checkHandler(what: string, handler: unknown): void {
  if (typeof handler !== "function")
    throw new TypeError(
      `${what} must be a function, (request) => new Response(…), not ${typeof handler}`,
    );
}

/**
 * The name of a class in addresses: its own or, where classes share one, that of its export. Throws
 * `TypeError` for a class that the test does not have.
 */
export function classNameOf({ agents }: Pick<LoadedModule, "agents">, agent: unknown): string {
  const constructor = agentClassOf(agent, false);
  for (const [name, each] of agents) if (each === constructor) return name;
  const { name } = (agent ?? {}) as { readonly name?: unknown };
  // The same class of another copy of its module, as a test runner may make.
  if (typeof name === "string" && agents.has(name)) return name;
  const shown = typeof agent === "function" ? `the class ${String(name)}` : shownValue(agent);
  throw new TypeError(
    `${shown} is no agent class of this test. Its classes: ${[...agents.keys()].join(", ")}`,
  );
}

const wrong = (option: string, value: unknown, use: string): TypeError =>
  new TypeError(`testAgents: ${option} is ${shownValue(value)}: use ${use}`);

const isOrigin = (url: unknown): boolean =>
  typeof url === "string" && /^https?:\/\//i.test(url) && URL.canParse(url);

function exportsOf(options: TestAgentsOptions): Readonly<Record<string, unknown>> {
  const { agents = [], webhooks, fetch, email, module } = options;
  if (module !== undefined) {
    if (agents.length > 0 || (webhooks ?? fetch ?? email) !== undefined)
      throw new TypeError(
        "testAgents: pass either `module`, or `agents`, `webhooks`, `fetch` and `email`",
      );
    if (typeof module !== "object" || module === null)
      throw new TypeError(
        `testAgents: module is a ${typeof module}: pass all exports of the module (import * as server from "./server.ts"), or classes as \`agents\``,
      );
    return module as Readonly<Record<string, unknown>>;
  }
  return {
    ...classesByName(agents),
    default: { ...(webhooks && { webhooks }), ...(fetch && { fetch }), ...(email && { email }) },
  };
}

/** A list has no names of exports, so that each class needs a name of its own. */
function classesByName(agents: unknown): Readonly<Record<string, AgentConstructor>> {
  if (!Array.isArray(agents))
    throw new TypeError("testAgents: agents is not a list of classes: agents: [RepoAgent]");
  const classes = new Map<string, AgentConstructor>();
  for (const [index, agent] of (agents as ReadonlyArray<unknown>).entries()) {
    if (agentClassOf(agent, false) === undefined)
      throw new TypeError(
        `testAgents: agents[${index}] is ${typeof agent === "function" ? `${agent.name || "a function"}, which is` : shownValue(agent) + ","} no agent class`,
      );
    const { name } = agent as AgentConstructor;
    const isOther = classes.has(name) && classes.get(name) !== agent;
    if (name === "" || isOther)
      throw new TypeError(
        `testAgents: agents[${index}] has ${isOther ? `the name of another class, ${name}` : "no name"}. A class is then named after its export: pass \`module\` instead`,
      );
    classes.set(name, agent as AgentConstructor);
  }
  return Object.fromEntries(classes);
}
