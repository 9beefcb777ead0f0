/**
 * The state of an agent in memory: what its code reads, and what follows a change of it
 * (`protocol.md` §6.1). Kept as value and as JSON text: the text is what is journaled and sent.
 */
import type { Connection } from "../connection/Connection.ts";
import { jsonText } from "../journal/jsonText.ts";
import type { AgentOutlet } from "./AgentOutlet.ts";
import type { AgentTurns } from "./AgentTurns.ts";
import type { Turn } from "./Turn.ts";
import type { WriteLimits } from "./WriteLimits.ts";

export interface StateWrite {
  /** The connection that sent it, which receives no frame of it. */
  readonly except?: Connection | undefined;
  /** The class's `initialState`: the next start would write it again. */
  readonly isInitial?: boolean;
  /** The hook that follows, once the change is stored and sent; undefined where there is none. */
  readonly changed: (() => unknown) | undefined;
}

interface StateOwner extends Pick<AgentTurns, "id" | "image" | "committer" | "turn" | "emit"> {
  readonly parts: { readonly limits: Pick<WriteLimits, "checkState"> };
  readonly sockets: {
    /** Sends a committed state to every socket of the protocol but `except`. */
    castState(state: string, seq: number, except: Connection | undefined): void;
  };
  /** Runs user code in a turn's context, after its commit; its errors go to `onError`. */
  runDeferred(turn: Turn, f: () => unknown): void;
}

/**
 * How many hooks may follow each other, each called for the state that the one before has set. A
 * hook that always sets the state would never end: in the reference its stack overflows.
 */
const HOOKS_MAX = 1_000;

export class LiveState {
  /** The number in its chain of the hook that runs, up to its first `await`; else 0. */
  private hooks = 0;
  /** Its JSON text; undefined: none is set. */
  text: string | undefined;
  value: unknown;

  /** From the agent's image, as activation made it. */
  constructor(
    private readonly agent: StateOwner,
    private readonly outlet: AgentOutlet,
  ) {
    this.text = agent.image.state;
    if (this.text !== undefined) this.value = JSON.parse(this.text);
  }

  get isSet(): boolean {
    return this.text !== undefined;
  }

  /**
   * Replaces the state; `undefined` unsets it. Throws, and changes nothing, if the state is not
   * JSON or is too large, and in a chain of hooks without end.
   */
  write(next: unknown, { except, changed, isInitial = false }: StateWrite): void {
    const hooks = this.hooks + 1;
    if (changed !== undefined && hooks > HOOKS_MAX)
      throw new Error(
        `setState: ${HOOKS_MAX} calls of onStateChanged have set the state, each after the one before: set it only if it would change. Nothing was changed`,
      );
    const text = jsonText(next, "setState: the state");
    if (next !== undefined && text === undefined)
      throw new TypeError(
        `setState: the state must be JSON, not a ${typeof next}; nothing was changed`,
      );
    const { agent } = this;
    const turn = agent.turn();
    agent.parts.limits.checkState(turn, text);
    this.text = text;
    this.value = next;
    turn.state = { text };
    agent.committer.touch(turn, { last: true, remade: isInitial });
    agent.committer.afterCommit((seq) => {
      agent.sockets.castState(text ?? "null", seq, except);
      agent.emit("state:update", {});
      if (changed !== undefined) agent.runDeferred(turn, () => this.inHook(hooks, changed));
    });
    agent.committer.whenStored((seq) =>
      this.outlet.publishState(agent.id, seq, agent.image.timeMs, text),
    );
  }

  private inHook(hooks: number, changed: () => unknown): unknown {
    this.hooks = hooks;
    try {
      return changed();
    } finally {
      this.hooks = 0;
    }
  }
}
