/**
 * Whether a reconnect reached another agent, as after a change of the server's routing. The app is
 * told by `onIdentityChange`; without that callback, a warning says so. `AgentClient` passes each
 * identity that it receives.
 */
import type { AgentClientOptions } from "./AgentClientOptions.ts";
import { callPage } from "./callPage.ts";

export interface Identity {
  readonly name: string;
  /** Class of the agent in kebab case. */
  readonly agent: string;
}

/** `last` is undefined for the first identity. */
export function reportIdentityChange(
  last: Identity | undefined,
  { name, agent }: Identity,
  { onIdentityChange }: Pick<AgentClientOptions, "onIdentityChange">,
): void {
  if (last === undefined || (last.name === name && last.agent === agent)) return;
  if (onIdentityChange !== undefined)
    callPage(() => onIdentityChange(last.name, name, last.agent, agent));
  else
    console.warn(
      `AgentClient: reconnected to ${agent} "${name}" instead of ${last.agent} "${last.name}"; ` +
        "pass onIdentityChange to handle this",
    );
}
