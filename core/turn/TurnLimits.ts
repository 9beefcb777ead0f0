/**
 * Ends the wait for turns that do not settle: one list of the turns that run on a host, by their
 * limit. JavaScript can't stop code that waits, so a turn is given up:
 *
 * 1. Its caller receives `TurnTimedOut`, as if its code had thrown that: its attempt is
 *    counted, `onError` runs, a caller is answered.
 * 2. Its signal aborts (`Turn.abort`).
 * 3. From then on its code can't write: writes are refused with the same error (`Turn.givenUp`), so
 *    it never commits, neither in its own name nor in another turn's.
 *
 * `runTurn` adds each turn; the host's sweep looks for those whose time is over, so a turn
 * that settles in time costs no timer.
 */
import { LinkedList } from "../collections/LinkedList.ts";
import { TurnTimedOut } from "../errors/errors.ts";
import type { AgentTurns } from "./AgentTurns.ts";
import type { AmbientShape } from "./Ambient.ts";
import type { Turn } from "./Turn.ts";

/** The agent that a turn runs on, as far as it is needed. */
export interface LimitedAgent extends Pick<AgentTurns, "log"> {
  readonly image: Pick<AgentTurns, "id">;
  readonly ambient: Pick<AmbientShape, "run">;
  /** Seconds that a turn may take; 0: no limit. */
  readonly turnSeconds: number;
}

interface Run {
  readonly agent: LimitedAgent;
  readonly turn: Turn;
  readonly sinceMs: number;
  readonly onError: (error: TurnTimedOut) => void;
}

/** What is called when code has settled. */
interface Settled<A> {
  readonly onValue: (value: A) => void;
  readonly onError: (error: unknown) => void;
}

/** Default of `turnSeconds`: longer than any model or provider takes to answer. */
export const TURN_SECONDS_DEFAULT = 900;

const MS_PER_SECOND = 1000;

/** The seconds of a class, or else of its host; 0: no limit. Throws `RangeError` if invalid. */
export function turnSecondsOf(own: number | undefined, ofHost = TURN_SECONDS_DEFAULT): number {
  const seconds = own ?? ofHost;
  if (typeof seconds === "number" && seconds >= 0) return seconds;
  throw new RangeError(`static options.turnSeconds: ${String(own)} is not a number of seconds`);
}

export class TurnLimits {
  /** By limit in seconds, each in the order in which the turns began: the first is due first. */
  readonly #runs = new Map<number, LinkedList<Run>>();
  readonly #onGivenUp: (of: string) => void;

  /** `onGivenUp` is called for each, with the class of its agent. */
  constructor(onGivenUp: (of: string) => void) {
    this.#onGivenUp = onGivenUp;
  }

  /**
   * Settles as `result` does, or rejects with `TurnTimedOut`. `sinceMs`: monotonic, when the code
   * began.
   */
  wait<A>(agent: LimitedAgent, turn: Turn, result: Promise<A>, sinceMs: number): Promise<A> {
    if (agent.turnSeconds === 0) return result;
    return new Promise((onValue, onError) =>
      this.watch(agent, turn, result, { sinceMs, onValue, onError }),
    );
  }

  /** As `wait`, with callbacks: one of them is called, once. */
  watch<A>(
    agent: LimitedAgent,
    turn: Turn,
    result: Promise<A>,
    { sinceMs, onValue, onError }: { readonly sinceMs: number } & Settled<A>,
  ): void {
    const { turnSeconds } = agent;
    if (turnSeconds === 0) return void result.then(onValue, onError);
    let runs = this.#runs.get(turnSeconds);
    if (runs === undefined) this.#runs.set(turnSeconds, (runs = new LinkedList()));
    const link = runs.add({ agent, turn, sinceMs, onError });
    result.then(
      (value) => link.leave() && onValue(value),
      (error: unknown) => link.leave() && onError(error),
    );
  }

  /** Gives up the turns whose time is over. */
  expire(nowMs: number): void {
    for (const [seconds, runs] of this.#runs)
      for (let run = runs.first; run !== undefined; run = runs.first) {
        if (nowMs - run.sinceMs < seconds * MS_PER_SECOND) break;
        runs.shift();
        this.#giveUp(run, new TurnTimedOut({ seconds }));
      }
  }

  #giveUp({ agent, turn, onError }: Run, error: TurnTimedOut): void {
    const { kind, id: key, attempt } = turn.cause;
    // A turn is logged once, even if several calls wait for its code.
    if (turn.givenUp !== undefined) return onError(error);
    agent.log.error("a turn did not end in time and was given up", {
      turn: kind,
      ...(key !== undefined && { key }),
      ...(attempt !== undefined && { attempt }),
      seconds: error.seconds,
    });
    this.#onGivenUp(agent.image.id.class);
    // The listeners of its signal are the turn's code, too.
    agent.ambient.run(turn, () => turn.giveUp(error));
    onError(error);
  }
}
