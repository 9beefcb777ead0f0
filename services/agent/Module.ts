/**
 * The type of a module's default export, for `export default { … } satisfies Module`. What it
 * allows is what `services/module/readModule` reads.
 */
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";
import type { EmailContext, EmailEntry } from "../../core/mail/EmailRoute.ts";
import type { FetchContext } from "../../core/namespace/routeAgentRequest.ts";
import type { WebhookRoute } from "../../core/webhook/WebhookRoute.ts";

/**
 * `Env` is the type of the bindings and secrets that the handlers receive: `satisfies Module<Env>`
 * gives them their type. All keys are optional.
 */
export interface Module<Env extends object = object> {
  /** Routes whose requests are verified before an agent sees them. */
  readonly webhooks?: ReadonlyArray<WebhookRoute>;
  /** Origins whose pages may reach agents by the default routing, or `["*"]`. */
  readonly allowedOrigins?: ReadonlyArray<string>;
  /** Answers every request that is no declared webhook. Default: the default routing, else 404. */
  fetch?(request: Request, env: Env, gateway: FetchContext): Response | Promise<Response>;
  /** Routes of incoming mail, or a function that takes each message. */
  readonly email?:
    ReadonlyArray<EmailEntry> | ((message: AgentEmail, env: Env, context: EmailContext) => unknown);
  /** Handlers of the reference's platform, which are not called here. */
  readonly scheduled?: unknown;
  readonly queue?: unknown;
  readonly tail?: unknown;
  readonly trace?: unknown;
  readonly test?: unknown;
}
