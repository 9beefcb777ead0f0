/**
 * The work of the machine that the code of agents under test has begun and not ended: files,
 * sockets, child processes, hashing, timers of `node:timers`. `Driver` does not move virtual time
 * past it.
 *
 * Node announces each such resource when it is made, in the context of the code that makes it.
 * Promises are not among them: nobody can tell what a promise of the test waits for. Node announces
 * them all the same, which costs as much as running them, so it is asked only during turns.
 */
import { createHook } from "node:async_hooks";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { callingAgent } from "../node/AsyncAmbient.ts";

/** The types that Node itself names so: `SCRYPTREQUEST`, `PROCESSWRAP`, `FSREQPROMISE`. */
const NODES_OWN = /^[A-Z0-9]+$/;
/** Promises are no work, and the others exist for as long as somebody watches or holds them. */
const NO_WORK: ReadonlySet<string> = new Set([
  "PROMISE",
  "DNSCHANNEL",
  "FILEHANDLE",
  "FSEVENTWRAP",
  "HTTPCLIENTREQUEST",
  "HTTPINCOMINGMESSAGE",
  "MESSAGEPORT",
  "PIPESERVERWRAP",
  "TCPSERVERWRAP",
]);

interface Work {
  readonly agent: ActiveAgent;
  /** Weak, because some resources end only when they are collected. */
  readonly resource: WeakRef<object>;
}

export class RealWork {
  private turns = 0;
  private readonly works = new Map<number, Work>();
  private readonly hook = createHook({
    init: (id, type, _trigger, resource) => {
      if (type !== "Timeout" && (NO_WORK.has(type) || !NODES_OWN.test(type))) return;
      const agent = callingAgent();
      if (agent !== undefined) this.works.set(id, { agent, resource: new WeakRef(resource) });
    },
    destroy: (id) => void this.works.delete(id),
  });

  /** Runs code of a turn, and takes down its work until its result has settled. */
  during<A>(f: () => A): A {
    if (this.turns++ === 0) this.hook.enable();
    let result: A | undefined;
    try {
      return (result = f());
    } finally {
      if (result instanceof Promise) result.then(this.ends, this.ends);
      else this.ends();
    }
  }

  private readonly ends = (): void => {
    if (--this.turns > 0) return;
    this.hook.disable();
    this.works.clear();
  };

  /** Whether work of such an agent keeps the process alive, as what code awaits does. */
  some(of: (agent: ActiveAgent) => boolean): boolean {
    for (const { agent, resource } of this.works.values())
      if (of(agent) && isAwaited(resource.deref())) return true;
    return false;
  }
}

function isAwaited(resource: object | undefined): boolean {
  if (resource === undefined) return false;
  const { hasRef } = resource as { readonly hasRef?: () => boolean };
  return typeof hasRef !== "function" || hasRef.call(resource);
}
