/** A step of a subject that calls the world, or its undo: it takes some time, and may kill. */
import type { ActiveAgent } from "../../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "../../../services/node/AsyncAmbient.ts";
import type { SubjectEnv } from "../subjects.ts";

const ACT_MS_MAX = 100;

/** Resolves to the time. `kills`: its host, the first time that it is called. */
export async function act(
  sim: SubjectEnv["sim"],
  what: string,
  { part, ms, kills }: { readonly part: number; readonly ms: number; readonly kills: boolean },
): Promise<number> {
  const { image } = asyncAmbient.current()!.owner as ActiveAgent;
  const earlier = sim.asked(what, part, image.seq);
  await sim.sleep(1 + ((ms * part) % ACT_MS_MAX));
  if (earlier === 0 && kills) await sim.kill();
  return sim.nowMs();
}
