/**
 * A user's module as the processes use it: its agent classes, its declared webhook routes and its
 * optional handlers. `loadModule` creates one from a file, `readModule` from exports that are
 * already loaded, as in tests. The gateway uses the routes and `fetch`, the host the classes, and
 * the mail process `email`.
 */
import * as Data from "effect/Data";
import type { FetchContext } from "../../core/namespace/routeAgentRequest.ts";
import type { EmailContext, EmailEntry } from "../../core/mail/EmailRoute.ts";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";
import type { EntrypointClass } from "../platform/WorkerEntrypoint.ts";
import type { WranglerConfig } from "../wrangler/WranglerConfig.ts";

/** An agent class: any constructor that has the mark `AGENT_MARK`. */
export type AgentConstructor = (abstract new (...args: never[]) => object) & {
  readonly name: string;
};

/** Static mark of the base class `Agent`. It recognises subclasses of every copy of the package. */
export const AGENT_MARK: unique symbol = Symbol.for("agents.Agent") as never;

/** Secrets and bindings by name, as handlers and agents receive them. */
export type ModuleEnv = Readonly<Record<string, unknown>>;

export interface LoadedModule {
  /** Absolute path of the module. */
  readonly file: string;
  /** The module and each local file that it imports, without `node_modules`: files to watch. */
  readonly files: ReadonlyArray<string>;
  /** A hash of those files. Absent if the module was not loaded from files. */
  readonly version?: string;
  /** By class name, which is the name in addresses, journals and routes. */
  readonly agents: ReadonlyMap<string, AgentConstructor>;
  readonly webhooks: ReadonlyArray<WebhookRoute>;
  /**
   * Origins whose pages may reach agents by the default routing (`docs/guides/access.md`), or `*`.
   * Undefined if the module does not set it.
   */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
  /** The module's own routing. Without it: declared routes, then `routeAgentRequest`, then 404. */
  readonly fetch?: (
    request: Request,
    env: ModuleEnv,
    context: FetchContext,
  ) => Response | Promise<Response>;
  /** Classes that answer without a state, by their export's name, for the module's own code. */
  readonly entrypoints: ReadonlyMap<string, EntrypointClass>;
  /** Declared mail routes. Empty if `email` is a function or absent. */
  readonly emailRoutes: ReadonlyArray<EmailEntry>;
  readonly email?: (message: unknown, env: ModuleEnv, context: EmailContext) => unknown;
  /** The configuration file of the reference's platform beside the module, if there is one. */
  readonly wrangler?: WranglerConfig | undefined;
}

/**
 * The module can't be used. `message` says what is wrong, where, and what to do. A change of one of
 * `files` may repair it.
 */
export class ModuleError extends Data.TaggedError("ModuleError")<{
  readonly file: string;
  readonly files: ReadonlyArray<string>;
  readonly message: string;
  readonly cause?: unknown;
}> {}
