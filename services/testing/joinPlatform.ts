/**
 * Binds `env` and `exports` of `cloudflare:workers` to a test's installation, as a serving process
 * binds them to its module (`services/wiring/codeOf`). They exist once in a process, so they are
 * those of the installation that was opened last and is still open.
 */
import { stackOf } from "../../core/errors/thrown.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { bindPlatform } from "../platform/bindPlatform.ts";

type Bound = Parameters<typeof bindPlatform>;

const NOTHING: Bound = [{ agents: new Map(), entrypoints: new Map() }, {}, () => undefined];
const open: Bound[] = [];

/** Binds `env`, and what the module exports. The returned function ends the binding. */
export function joinPlatform(module: LoadedModule, env: Bound[1], log: LogShape): () => void {
  const onRejected = (error: unknown): void =>
    log.error("a waitUntil promise rejected", { error: stackOf(error) });
  const bound: Bound = [module, env, onRejected];
  open.push(bound);
  bindPlatform(...bound);
  return () => {
    const at = open.indexOf(bound);
    if (at < 0) return;
    open.splice(at, 1);
    bindPlatform(...(open.at(-1) ?? NOTHING));
  };
}
