/**
 * The agents that have had a turn and are still in memory, for the question which one holds most of
 * it (`whoHolds`). None is kept in memory by being known here. `startWatchdog` owns it.
 */
import { Session, type Runtime } from "node:inspector";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { estimateHeld } from "./estimateHeld.ts";
import { WHO_HOLDS, type Holder } from "./pausedCode.ts";

/** Below this number of references nothing is pruned. */
const PRUNED_FROM = 1_000;
/** Bytes. */
const MB = 1024 * 1024;

export class AgentsInMemory {
  private readonly known = new WeakSet<ActiveAgent>();
  private refs: WeakRef<ActiveAgent>[] = [];
  private prunedAt = PRUNED_FROM;

  constructor() {
    const value = (leastMb: number): Holder | undefined =>
      this.holds(leastMb, () => []) ?? this.holds(leastMb, hiddenFields());
    Object.defineProperty(globalThis, WHO_HOLDS, { value, configurable: true });
  }

  /** Called for each turn. */
  add(agent: ActiveAgent): void {
    if (this.known.has(agent)) return;
    this.known.add(agent);
    if (this.refs.push(new WeakRef(agent)) < this.prunedAt) return;
    this.refs = this.refs.filter((ref) => ref.deref()?.discarded === false);
    this.prunedAt = Math.max(PRUNED_FROM, 2 * this.refs.length);
  }

  /**
   * The agent that holds so much, which is most of the memory: several hold something of the
   * module's together. `more`: what an agent holds beside its ordinary fields.
   */
  private holds(leastMb: number, more: (agent: object) => unknown[]): Holder | undefined {
    const holders: Holder[] = [];
    for (const ref of this.refs) {
      const active = ref.deref();
      if (active === undefined || active.discarded) continue;
      const { agent, id, ctx, parts } = active;
      const isBoundary = (value: object): boolean =>
        value === ctx || value === parts.env || value instanceof ActiveAgent;
      const mb = Math.round(estimateHeld([agent, ...more(agent)], isBoundary) / MB);
      if (mb >= leastMb) holders.push({ class: id.class, name: id.name, mb });
    }
    return holders.length === 1 ? holders[0] : undefined;
  }
}

/** Returns a function for the values of an object's `#` fields, which only a debugger can read. */
function hiddenFields(): (of: object) => unknown[] {
  const session = new Session();
  session.connect();
  const shared: { of: object | undefined; found: unknown[] } = { of: undefined, found: [] };
  Object.defineProperty(globalThis, HIDDEN, { value: shared, configurable: true });
  // Within one thread each answer arrives before `post` returns.
  return (of) => {
    Object.assign(shared, { of, found: [] });
    session.post("Runtime.evaluate", { expression: `globalThis["${HIDDEN}"].of` }, (_, given) => {
      const { objectId = "" } = given.result;
      session.post("Runtime.getProperties", { objectId, ownProperties: true }, (__, all) => {
        const { privateProperties = [] } = all as WithHidden;
        for (const { value } of privateProperties)
          if (value?.objectId !== undefined)
            session.post("Runtime.callFunctionOn", {
              objectId: value.objectId,
              functionDeclaration: `function () { globalThis["${HIDDEN}"].found.push(this) }`,
            });
      });
    });
    return shared.found;
  };
}

/** Node's types leave it out. */
interface WithHidden {
  readonly privateProperties?: ReadonlyArray<{ readonly value?: Runtime.RemoteObject }>;
}

/** The name on `globalThis` of what `hiddenFields` and its expressions share. */
const HIDDEN = "turnkeep.hiddenFields";
