/**
 * Changes an agent's state, for its code and for its clients: the validator decides, the runtime
 * stores and sends the change, and the hook is called last.
 */
import type { Connection } from "../connection/Connection.ts";
import { ReadonlyConnection } from "../errors/errors.ts";
import type { LogShape } from "../telemetry/Log.ts";
import type { AgentHooks, StateSource } from "./AgentHooks.ts";
import type { StateRuntime } from "./AgentRuntime.ts";
import { hasStateHook, stateHookOf } from "./stateHook.ts";

interface StateChange {
  readonly next: unknown;
  readonly source: StateSource;
  /** The connection that receives no frame of the change. */
  readonly except?: Connection | undefined;
  readonly isInitial?: boolean;
}

type Hooks = Pick<
  AgentHooks<unknown, never>,
  "validateStateChange" | "onStateChanged" | "onStateUpdate" | "isConnectionReadonly"
>;

/**
 * Throws what the validator throws, what `StateRuntime.writeState` throws, and `TypeError` for a
 * class with a field `state`.
 */
export function changeState(
  agent: Hooks,
  runtime: StateRuntime & { readonly log: LogShape },
  { next, source, ...how }: StateChange,
): void {
  // It hides the getter: the agent would never read what is stored.
  if (Object.hasOwn(agent, "state"))
    throw new TypeError(
      `${agent.constructor.name} has a field "state", which hides the stored state: rename it to initialState`,
    );
  // TypeScript accepts an async override of a method that returns void.
  const verdict = agent.validateStateChange(next, source) as unknown;
  if (verdict instanceof Promise) {
    verdict.catch(() => undefined);
    throw new TypeError(
      "validateStateChange must be synchronous, because it decides before the state is set. Nothing was changed",
    );
  }
  runtime.writeState(next, {
    ...how,
    changed: hasStateHook(agent)
      ? () => stateHookOf(agent, runtime)?.(next, source) as unknown
      : undefined,
  });
}

/** Sets a state that a client sent. Throws `ReadonlyConnection`, or as `changeState` does. */
export function changeFromClient(
  agent: Hooks,
  runtime: StateRuntime & { readonly log: LogShape },
  connection: Connection,
  next: unknown,
): void {
  if (agent.isConnectionReadonly(connection)) throw new ReadonlyConnection();
  changeState(agent, runtime, { next, source: connection, except: connection });
}
