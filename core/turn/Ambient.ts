/**
 * The ambient-context port: which turn the running code belongs to, across `await`s. It is what
 * `getCurrentAgent()` shows, what readonly enforcement asks, and what attributes a write to its
 * turn. `services/node/AsyncAmbient` implements it on AsyncLocalStorage.
 */
import * as Context from "effect/Context";
import type { Turn } from "./Turn.ts";

export interface AmbientShape {
  /** Runs `f` so that `current()` returns `turn` in it and in all that it awaits. */
  readonly run: <A>(turn: Turn, f: () => A) => A;
  readonly current: () => Turn | undefined;
  /**
   * Runs `f`, whose turns continue a trace (a W3C `traceparent`) unless their input has one. Absent
   * in a process that is not traced.
   */
  readonly continuing?: <A>(traceparent: string, f: () => A) => A;
}

export class Ambient extends Context.Service<Ambient, AmbientShape>()(
  "agents/core/ambient/Ambient",
) {}
