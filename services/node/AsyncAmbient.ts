/** The ambient-context port on AsyncLocalStorage. `getCurrentAgent` reads it for users. */
import { AsyncLocalStorage } from "node:async_hooks";
import * as Layer from "effect/Layer";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { Turn } from "../../core/turn/Turn.ts";

// One store per process, because user code asks for the current agent without a handle.
const storage = new AsyncLocalStorage<Turn>();

export const asyncAmbient: AmbientShape = {
  run: (turn, f) => storage.run(turn, f),
  current: () => storage.getStore(),
};

export const asyncAmbientLayer = Layer.succeed(Ambient, asyncAmbient);

/** The agent whose code runs, for its calls (`CallClient`). Undefined outside a turn. */
export const callingAgent = (): ActiveAgent | undefined => {
  const owner = storage.getStore()?.owner;
  return owner instanceof ActiveAgent ? owner : undefined;
};

/** How many agents wait for what the running code does: its own, and those waiting for its turn. */
export const callDepth = (): number => {
  const turn = storage.getStore();
  return turn === undefined ? 0 : turn.depth + 1;
};
