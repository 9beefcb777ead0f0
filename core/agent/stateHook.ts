/**
 * Which method is called after a state change: `onStateChanged`, or its deprecated name
 * `onStateUpdate` (`protocol.md` §5). The nearest one of the class's ancestors counts; a class with
 * both is an error.
 */
import type { LogShape } from "../telemetry/Log.ts";
import { AgentHooks } from "./AgentHooks.ts";

type Hook = (state: unknown, source: unknown) => unknown;
const NAMES = ["onStateChanged", "onStateUpdate"] as const;

/** Classes that were warned about: once is enough for all their instances. */
const warned = new WeakSet<object>();

/**
 * Throws when a subclass overrides both names. Warns once of the deprecated one. Undefined: nobody
 * listens.
 */
export function stateHookOf(agent: object, log: LogShape): Hook | undefined {
  let nearest: (typeof NAMES)[number] | undefined;
  for (
    let prototype: unknown = Object.getPrototypeOf(agent);
    typeof prototype === "object" && prototype !== null && prototype !== AgentHooks.prototype;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    const own = NAMES.filter((name) => Object.hasOwn(prototype as object, name));
    const { constructor } = prototype;
    if (own.length > 1)
      throw new Error(
        `${constructor.name} has both onStateChanged and onStateUpdate, its old name: keep onStateChanged`,
      );
    nearest ??= own[0];
    if (own[0] === "onStateUpdate" && !warned.has(constructor)) {
      warned.add(constructor);
      log.warn(`${constructor.name}.onStateUpdate is deprecated: rename it to onStateChanged`);
    }
  }
  // A function kept in a field, which is there only after the constructor.
  const field = NAMES.find((name) => Object.hasOwn(agent, name));
  const name = field ?? nearest;
  if (name === undefined) return undefined;
  return (state, source) => (agent as Record<typeof name, Hook>)[name](state, source);
}
