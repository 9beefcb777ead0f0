/**
 * A user's module as the processes see it: its agent classes, its declared webhook routes and its
 * optional handlers. Made by `loadModule` (from a file) or `readModule` (from exports already at
 * hand, as tests have them); used by the gateway (routes, `fetch`), the host (classes) and mail.
 */
import * as Data from "effect/Data";
import type { FetchContext } from "../../core/agent/routeAgentRequest.ts";
import type { EmailEntry } from "../../core/mail/EmailRoute.ts";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";

/** An agent class: any constructor that carries the mark of `AGENT_MARK`. */
export type AgentConstructor = (abstract new (...args: never[]) => object) & {
  readonly name: string;
};

/** Static mark of the base class `Agent`; recognises subclasses whichever copy they were built from. */
export const AGENT_MARK: unique symbol = Symbol.for("agents.Agent") as never;

/** Secrets and bindings by name, as handlers and agents get them. */
export type ModuleEnv = Readonly<Record<string, unknown>>;

/** The third argument of a module's `email`. */
export interface ModuleContext {
  /** Keeps the process's shutdown waiting for `promise`; a rejection is logged, not thrown. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
  /** Accepted for modules written for other runtimes; there is no origin to pass through to. */
  readonly passThroughOnException: () => void;
}

export interface LoadedModule {
  /** Absolute path of the module. */
  readonly file: string;
  /** The module and every local file that it imports (not `node_modules`): what to watch. */
  readonly files: ReadonlyArray<string>;
  /** By class name, which is the name in addresses, journals and routes. */
  readonly agents: ReadonlyMap<string, AgentConstructor>;
  readonly webhooks: ReadonlyArray<WebhookRoute>;
  /** Origins whose pages reach agents by the default routing (`docs/guides/access.md`), or `*`; undefined: not said. */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
  /** Programmable routing; undefined: declared routes, then `routeAgentRequest`, then 404. */
  readonly fetch?: (
    request: Request,
    env: ModuleEnv,
    context: FetchContext,
  ) => Response | Promise<Response>;
  /** Declared routes of mail; empty where `email` is a function, or there is none. */
  readonly emailRoutes: ReadonlyArray<EmailEntry>;
  readonly email?: (message: unknown, env: ModuleEnv, context: ModuleContext) => unknown;
}

/** The module can't be used. `message` says what, where and what to do; `files` are worth watching for the repair. */
export class ModuleError extends Data.TaggedError("ModuleError")<{
  readonly file: string;
  readonly files: ReadonlyArray<string>;
  readonly message: string;
  readonly cause?: unknown;
}> {}
