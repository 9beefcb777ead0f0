/**
 * Checks a module's exports and names what is wrong with them. Pure: imports none of the user's
 * code. Called by `loadModule`, and by tests with an object of classes and a default export.
 */
import { readOrigin } from "../../core/http/origins.ts";
import { nearest } from "../../core/errors/nearest.ts";
import type { EmailEntry, EmailRoute } from "../../core/mail/EmailRoute.ts";
import { targetsOf, type WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import { isWorkflowClass } from "../../core/workflow/WorkflowEntrypoint.ts";
import { isObjectClass, type ObjectClass } from "../../core/durableObject/DurableObject.ts";
import { objectActor } from "../../core/durableObject/ObjectActor.ts";
import { workflowActor } from "../../core/runtime/WorkflowRun.ts";
import { camelCaseToKebabCase as urlName } from "../../schemas/kebabCase.ts";
import { underInstalledName } from "../ownPackage/installedName.ts";
import { entrypointContext } from "../platform/loopback.ts";
import {
  isEntrypointClass,
  type EntrypointClass,
  type EntrypointContext,
} from "../platform/WorkerEntrypoint.ts";
import { classOptionsFault } from "./classOptions.ts";
import {
  AGENT_MARK,
  ModuleError,
  type AgentConstructor,
  type LoadedModule,
} from "./LoadedModule.ts";

/** Keys of the default export that this system reads. */
const KEYS = ["webhooks", "fetch", "email", "allowedOrigins"];
/** Handlers that only the reference's platform calls; a module may have them. */
const KEYS_ELSEWHERE = ["scheduled", "queue", "tail", "trace", "test"];

const EXAMPLE = `export class Counter extends Agent { … }  // import { Agent } from "agents"`;

/**
 * Throws `ModuleError`. `files` default to the module alone. `objects` are exports that a
 * configuration file binds as Durable Objects, which may extend nothing.
 */
export function readModule(
  exports: Readonly<Record<string, unknown>>,
  file: string,
  files: ReadonlyArray<string> = [file],
  objects: Iterable<string> = [],
): LoadedModule {
  const refuse = (message: string): never => {
    throw new ModuleError({ file, files, message: `${file}: ${underInstalledName(message)}` });
  };
  const bound = new Set(objects);
  const agents = readAgents(exports, bound, refuse);
  const main = readDefault(exports["default"], refuse);
  const entrypoints = new Map(
    Object.entries(exports).filter((entry): entry is [string, EntrypointClass] =>
      isEntrypointClass(entry[1]),
    ),
  );
  if (agents.size === 0 && main["fetch"] === undefined && main["email"] === undefined) {
    const held = Object.values(main).find(isAgentClass);
    if (held !== undefined)
      refuse(`the default export has the class ${held.name}. Export it itself: export class ${held.name} …`); // prettier-ignore
    refuse(`no agent class is exported. Export at least one:\n\n  ${EXAMPLE}\n`);
  }
  const webhooks = readWebhooks(main["webhooks"], agents, refuse);
  return {
    file,
    files,
    agents,
    webhooks,
    allowedOrigins: readAllowedOrigins(main["allowedOrigins"], refuse),
    ...handler(main, "fetch", refuse),
    ...(Array.isArray(main["email"]) ? {} : handler(main, "email", refuse)),
    entrypoints,
    emailRoutes: readEmailRoutes(main["email"], agents, refuse),
  };
}

type Refuse = (message: string) => never;

/**
 * The classes by name. A class without a name, or with the name of another, as those of a factory
 * have, is named after its export.
 */
function readAgents(
  exports: Readonly<Record<string, unknown>>,
  bound: ReadonlySet<string>,
  refuse: Refuse,
): ReadonlyMap<string, AgentConstructor> {
  if (isAgentClass(exports["default"]))
    refuse(
      `the default export is the agent class ${exports["default"].name}. Export it by its name; the default export holds { webhooks, fetch, email }`,
    );
  const classes = new Map<AgentConstructor, string>();
  for (const [name, exported] of Object.entries(exports)) {
    const value = agentClassOf(exported, bound.has(name));
    if (value !== undefined && !classes.has(value)) classes.set(value, name);
  }
  const agents = new Map<string, AgentConstructor>();
  for (const [value, exportName] of classes) {
    const fault = classOptionsFault((value as { readonly options?: unknown }).options);
    if (fault !== undefined) refuse(`static options of ${value.name}: ${fault}`);
    const isShared = [...classes.keys()].some((c) => c !== value && c.name === value.name);
    const name = value.name === "" || isShared ? exportName : value.name;
    if (agents.has(name))
      refuse(
        `two agent classes are named ${name}. The name is part of every address: rename one of them`,
      );
    const twin = [...agents.keys()].find((other) => urlName(other) === urlName(name));
    if (twin !== undefined)
      refuse(
        `the agent classes ${twin} and ${name} are both ${urlName(name)} in URLs: rename one of them`,
      );
    agents.set(name, value);
  }
  return agents;
}

/**
 * The agent class of an export: itself, or the actor that runs a workflow class or a class of
 * Durable Objects; undefined for any other export. `isBound` says whether a configuration file
 * binds it.
 */
export function agentClassOf(exported: unknown, isBound: boolean): AgentConstructor | undefined {
  if (isAgentClass(exported)) return exported;
  if (isWorkflowClass(exported)) return actorOf(exported, workflowActor);
  const isObject = isObjectClass(exported) || (isBound && isPlainClass(exported));
  return isObject ? actorOf(exported as ObjectClass, objectActor) : undefined;
}

/** A class that extends nothing of this package, as in old modules for the platform. */
const isPlainClass = (value: unknown): boolean =>
  typeof value === "function" &&
  /^class\b/.test(Function.prototype.toString.call(value)) &&
  !isEntrypointClass(value);

/** One entry for each class, however often it is exported. */
const actors = new WeakMap<object, AgentConstructor>();
function actorOf<A extends object>(
  given: A,
  make: (given: A) => AgentConstructor,
): AgentConstructor {
  const actor = actors.get(given) ?? make(given);
  actors.set(given, actor);
  return actor;
}

/** A subclass of `Agent`; not `Agent` itself, which a module may re-export. */
function isAgentClass(value: unknown): value is AgentConstructor {
  return (
    typeof value === "function" &&
    (value as { readonly [AGENT_MARK]?: unknown })[AGENT_MARK] === true &&
    !Object.hasOwn(value, AGENT_MARK)
  );
}

function readDefault(value: unknown, refuse: Refuse): Readonly<Record<string, unknown>> {
  if (value === undefined) return {};
  if (isEntrypointClass(value)) return handlersOf(value);
  if (typeof value !== "object" || value === null)
    return refuse(
      `the default export is ${value === null ? "null" : `a ${typeof value}`}; it should be an object such as { webhooks: [ … ], async fetch(request, env) { … } }`,
    );
  checkKeys(value, refuse);
  return value as Readonly<Record<string, unknown>>;
}

/** For a class as the default export. Each instance handles one request or message. */
function handlersOf(entrypoint: EntrypointClass): Readonly<Record<string, unknown>> {
  const names = ["fetch", "email"].filter((name) => name in entrypoint.prototype);
  const handle =
    (name: string) =>
    (given: unknown, env: object, { waitUntil }: Pick<EntrypointContext, "waitUntil">): unknown => {
      const context = { ...entrypointContext({}, () => undefined), waitUntil };
      return (new entrypoint(context, env) as Record<string, (given: unknown) => unknown>)[name]!(
        given,
      );
    };
  return Object.fromEntries(names.map((name) => [name, handle(name)]));
}

/**
 * Refuses a misspelt key, which would be ignored silently. Checks only plain objects, since a
 * framework's application has keys of its own.
 */
function checkKeys(value: object, refuse: Refuse): void {
  if (Object.getPrototypeOf(value) !== Object.prototype) return;
  for (const key of Object.keys(value)) {
    if (KEYS.includes(key) || KEYS_ELSEWHERE.includes(key)) continue;
    const meant = nearest(key, KEYS);
    if (meant !== undefined)
      refuse(`the default export has "${key}", which nothing reads. Did you mean "${meant}"?`);
  }
}

function readWebhooks(
  value: unknown,
  agents: ReadonlyMap<string, AgentConstructor>,
  refuse: Refuse,
): ReadonlyArray<WebhookRoute> {
  if (value === undefined) return [];
  if (!Array.isArray(value)) refuse(`"webhooks" of the default export is not an array`);
  const paths = new Set<string>();
  for (const [index, route] of (value as ReadonlyArray<unknown>).entries()) {
    if (!isRoute(route))
      return refuse(
        `webhooks[${index}] is not a route. Build it with webhook(path, { agent, verify, entity }) from "agents/webhooks"`,
      );
    for (const { agent } of targetsOf(route, undefined).filter(
      (target) => !agents.has(target.agent),
    ))
      refuse(
        `webhooks[${index}] (${route.path}) sends to ${agent}, which this module does not export. Exported: ${[...agents.keys()].join(", ")}`,
      );
    if (paths.has(route.path)) refuse(`two webhook routes have the path ${route.path}`);
    paths.add(route.path);
  }
  return value as ReadonlyArray<WebhookRoute>;
}

function readAllowedOrigins(value: unknown, refuse: Refuse): ReadonlyArray<string> | undefined {
  if (value === undefined) return undefined;
  const given: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value];
  return given.map(
    (origin) =>
      (typeof origin === "string" ? readOrigin(origin) : undefined) ??
      refuse(
        `allowedOrigins of the default export has ${JSON.stringify(origin)}. Write origins as browsers send them, like ["https://app.example.com"], or "*" for all`,
      ),
  );
}

function isRoute(value: unknown): value is WebhookRoute {
  if (typeof value !== "object" || value === null) return false;
  const route = value as Partial<WebhookRoute>;
  return (
    typeof route.path === "string" &&
    typeof route.agent === "string" &&
    typeof route.verifier === "object" &&
    typeof route.entity === "object"
  );
}

function readEmailRoutes(
  value: unknown,
  agents: ReadonlyMap<string, AgentConstructor>,
  refuse: Refuse,
): ReadonlyArray<EmailEntry> {
  if (!Array.isArray(value)) return [];
  for (const [index, entry] of (value as ReadonlyArray<unknown>).entries()) {
    if (typeof entry === "function") continue;
    const { matches, agent } = (entry ?? {}) as Partial<EmailRoute>;
    if (typeof matches !== "function" || typeof agent !== "string")
      return refuse(
        `email[${index}] is neither a route nor a resolver. Build it with emailRoute(address, { agent }) from "agents/email"`,
      );
    if (!agents.has(agent))
      refuse(
        `email[${index}] sends to ${agent}, which this module does not export. Exported: ${[...agents.keys()].join(", ")}`,
      );
  }
  return value as ReadonlyArray<EmailEntry>;
}

/** Bound to the default export, so that handlers may use `this`. */
function handler(
  main: Readonly<Record<string, unknown>>,
  name: "fetch" | "email",
  refuse: Refuse,
): Partial<LoadedModule> {
  const value = main[name];
  if (value === undefined) return {};
  if (typeof value !== "function")
    return refuse(`"${name}" of the default export is not a function`);
  return { [name]: (value as (...args: unknown[]) => unknown).bind(main) };
}
