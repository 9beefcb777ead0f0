/**
 * Finds the method to call after a state change: `onStateChanged`, or its deprecated name
 * `onStateUpdate` (`protocol.md` §5). The nearest one on the prototypes counts; a class with both
 * is an error.
 */
import type { LogShape } from "../telemetry/Log.ts";
import { AgentHooks } from "./AgentHooks.ts";
import { prototypesOf } from "./methods.ts";

type Hook = (state: unknown, source: unknown) => unknown;
const NAMES = ["onStateChanged", "onStateUpdate"] as const;

/** Classes that a warning was logged for; one is enough for all their instances. */
const warned = new WeakSet<object>();

/** Whether a change of state calls a hook. Asked at each change; few classes have one. */
export const hasStateHook = ({
  onStateChanged,
  onStateUpdate,
}: Pick<AgentHooks<unknown, never>, (typeof NAMES)[number]>): boolean =>
  onStateChanged !== AgentHooks.prototype.onStateChanged || onStateUpdate !== undefined;

/**
 * Throws if a subclass overrides both names. Logs one warning for the deprecated name. Returns
 * undefined if neither is overridden.
 */
export function stateHookOf(agent: object, runtime: { readonly log: LogShape }): Hook | undefined {
  let nearest: (typeof NAMES)[number] | undefined;
  for (const prototype of prototypesOf(agent)) {
    if (prototype === AgentHooks.prototype) break;
    const own = NAMES.filter((name) => Object.hasOwn(prototype, name));
    const { constructor } = prototype;
    if (own.length > 1)
      throw new Error(
        `${constructor.name} has both onStateChanged and onStateUpdate, its old name: keep onStateChanged`,
      );
    nearest ??= own[0];
    if (own[0] === "onStateUpdate" && !warned.has(constructor)) {
      warned.add(constructor);
      runtime.log.warn(
        `${constructor.name}.onStateUpdate is deprecated: rename it to onStateChanged`,
      );
    }
  }
  // A function in a field, which exists only after the constructor has run.
  const field = NAMES.find((name) => Object.hasOwn(agent, name));
  const name = field ?? nearest;
  if (name === undefined) return undefined;
  return (state, source) => (agent as Record<typeof name, Hook>)[name](state, source);
}
