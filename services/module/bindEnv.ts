/**
 * Builds `env` for handlers and agents: secrets and variables by name, and one namespace for each
 * agent class. A class is bound under its own name and under its name in capitals (`REPO_AGENT`),
 * which modules written for the reference use. The second binding is not enumerable, so that
 * routing sees each class once. If the process can send mail, the binding `EMAIL` sends it.
 * Workflow classes and classes of Durable Objects have bindings of other kinds under the same
 * names; routing does not reach workflows. A configuration file beside the module may bind all of
 * these under further names, which routing uses too, and may bind the module's files.
 */
import { isObjectActor } from "../../core/durableObject/ObjectActor.ts";
import { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import type { CallClientSource } from "../../core/namespace/stubTarget.ts";
import type { EmailBinding } from "../../core/mail/EmailBinding.ts";
import type { MailDrop } from "../../core/mail/mailDrop.ts";
import { WorkflowBinding } from "../../core/workflow/WorkflowBinding.ts";
import { isWorkflowActor } from "../../core/runtime/WorkflowRun.ts";
import { offerGlobals } from "../platform/offeredGlobals.ts";
import { installSocketGlobals, offerWebSocketPair } from "../platform/socketGlobals.ts";
import { Assets } from "../wrangler/Assets.ts";
import { MissingLoader } from "../wrangler/MissingLoader.ts";
import type { WranglerConfig } from "../wrangler/WranglerConfig.ts";

export function bindEnv(
  variables: Readonly<Record<string, unknown>>,
  agents: Iterable<string> | ReadonlyMap<string, unknown>,
  calls: CallClientSource,
  mail?: { readonly drop: MailDrop; readonly binding: EmailBinding },
  wrangler?: Pick<WranglerConfig, "vars" | "bindings" | "mailBindings" | "loaders" | "assets">,
): Readonly<Record<string, unknown>> {
  offerWebSocketPair();
  offerGlobals();
  const env: Record<string, unknown> = { ...wrangler?.vars, ...variables };
  const classes = agents instanceof Map ? agents : undefined;
  for (const className of (classes?.keys() ?? agents) as Iterable<string>) {
    const namespace = bindingOf(className, classes?.get(className), { calls, drop: mail?.drop });
    env[className] = namespace;
    const capitals = className.replace(/(?<=[a-z0-9])(?=[A-Z])/g, "_").toUpperCase();
    if (!(capitals in env)) Object.defineProperty(env, capitals, { value: namespace });
  }
  // A variable of the user takes precedence, whatever its value.
  const bind = (name: string, value: unknown): void => {
    if (!(name in env)) Object.defineProperty(env, name, { value });
  };
  if (mail !== undefined)
    for (const name of ["EMAIL", ...(wrangler?.mailBindings ?? [])]) bind(name, mail.binding);
  for (const [name, className] of wrangler?.bindings ?? [])
    if (className in env && !(name in env)) env[name] = env[className];
  for (const name of wrangler?.loaders ?? []) bind(name, new MissingLoader(name));
  if (wrangler?.assets?.binding !== undefined)
    bind(wrangler.assets.binding, new Assets(wrangler.assets));
  return env;
}

function bindingOf(
  className: string,
  agentClass: unknown,
  { calls, drop }: { readonly calls: CallClientSource; readonly drop: MailDrop | undefined },
): unknown {
  if (isWorkflowActor(agentClass)) return new WorkflowBinding(className, calls);
  if (isObjectActor(agentClass)) {
    installSocketGlobals();
    return new ObjectNamespace(className, calls, drop);
  }
  return new AgentNamespace(className, calls, drop);
}
