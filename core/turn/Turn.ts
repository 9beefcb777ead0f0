/**
 * One turn: one input, the user code that it runs, and what that code wrote and has not committed.
 * Made by `ActiveAgent`, filled by the agent's API, emptied by the `Committer`.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { Connection } from "../connection/Connection.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { conceal } from "../redaction/FieldRedaction.ts";
import { AbortSource } from "../lazyFetch/AbortSource.ts";
import type { TurnTimedOut } from "../errors/errors.ts";
import type { AgentEmail } from "../mail/AgentEmail.ts";
import type { InputOutcome } from "../journal/encodeCommit.ts";
import type { Block } from "./ConcurrencyBlock.ts";
import type { StepCounts } from "./StepCounts.ts";
import type { TurnSteps } from "./TurnSteps.ts";
import { messageOf, nameOf, ownStackOf } from "../errors/thrown.ts";

/** Texts kept per turn and event: for people, not for replay. */
const SQL_TEXTS_MAX = 50;
/** UTF-16 units of one text kept. */
const SQL_TEXT_MAX = 2000;

/** An input that is not in the inbox yet (`DirectInput`). */
export interface UnstoredInput {
  /** Puts the input into the inbox. Resolves to its sequence there. Rejects as `publish` does. */
  store(publish: (data: Uint8Array) => Promise<Sequence>): Promise<Sequence>;
}

/** The step whose function runs, and the turn that it belongs to. */
export interface StepScope {
  readonly name: string;
  /** Identifies the step in the turn's record: `1:charge`. */
  readonly id: string;
  /** The same in each attempt: an idempotency key. */
  readonly key: string;
  readonly turn: Turn;
  /** Steps of each name that were begun within this attempt of it. */
  readonly begun: StepCounts;
}

/** The input and connection that a turn runs for. */
export interface TurnContext {
  readonly connection?: Connection | undefined;
  readonly request?: Request | undefined;
  /** Fires when nobody waits for the turn's answer any more. Default: that is not known. */
  readonly abort?: AbortSource | undefined;
  /** How many agents wait for its answer, each for the next. Default: none. */
  readonly depth?: number | undefined;
  /** Values of its input that no text may contain (`FieldRedaction`). Default: none. */
  readonly conceals?: ReadonlyArray<string> | undefined;
}

export class Turn {
  /** Replaced when its input is stored while it runs (`storeInput`). */
  cause: Cause;
  /** Whether its input was not stored when it arrived. */
  readonly direct: boolean;
  /** Its input, while that is not in the inbox. */
  private input: UnstoredInput | undefined;
  /** The agent it runs on, by identity: writes of another agent are never attributed to it. */
  readonly owner: object;
  /** Its input is done once, across crashes: its writes gather until it ends. */
  readonly durable: boolean;
  /** How many agents wait for its answer (`CallClient`, rule 4). */
  readonly depth: number;
  /** The connection in whose context the code runs. Replaced once, while it connects. */
  connection: Connection | undefined;
  request: Request | undefined;
  email: AgentEmail | undefined;
  private readonly conceals: ReadonlyArray<string> | undefined;
  ended = false;
  /** Why its code may write no more: it did not end in time (`TurnLimits`, rule 3). */
  givenUp: TurnTimedOut | undefined;
  private abortSource: AbortSource | undefined;
  private successor: Turn | undefined;
  private endings: Array<() => void> | undefined;
  /** True while user code runs that the turn waits for. */
  running = false;
  /** An error that nothing handled, of code that this turn started. The turn fails with it. */
  failure: { readonly error: unknown } | undefined;
  /**
   * A call of the agent's API rejected. Whether anything handles the rejection is known one pass of
   * the event loop later, and the turn waits for that.
   */
  rejected = false;
  /** Set when a durable turn ends. */
  outcome: InputOutcome | undefined;
  /** Whether the journal must record its start, even if it writes nothing. */
  announced = false;
  /** A commit has already told the journal the whole cause: later ones only name it. */
  told = false;

  /** Outgoing webhooks and mails that it asked for: their counts make their ids. */
  webhooksSent = 0;
  mailsSent = 0;

  /** The last state it set since its last commit; `undefined` inside means "unset". */
  state: { readonly text: string | undefined } | undefined;
  sql: string[] = [];
  /** Monotonic, of its first write since its last commit; kept for durable turns only. */
  wroteMs: number | undefined;
  /** True once the gather timeout has passed and the turn is still running. */
  late = false;
  /** Its writes wait for no turn, and an undo of turns keeps them: chunks of durable streams. */
  yields = false;
  /** Undefined until it begins a step. */
  steps: TurnSteps | undefined;
  /** The step, in the view of a turn that a step's function has. */
  readonly step: StepScope | undefined = undefined;
  /** The block, in the view of a turn that a block's function has. */
  readonly block: Block | undefined = undefined;
  /** The turn itself, in each view of it. */
  readonly whole: Turn = this;

  constructor(
    options: TurnContext & {
      readonly cause: Cause;
      readonly owner: object;
      readonly durable?: boolean;
      readonly input?: UnstoredInput;
    },
  ) {
    this.cause = options.cause;
    this.owner = options.owner;
    this.durable = options.durable ?? false;
    this.depth = options.depth ?? 0;
    this.input = options.input;
    this.conceals = options.conceals;
    this.direct = options.input !== undefined;
    this.connection = options.connection;
    this.request = options.request;
    this.abortSource = options.abort;
  }

  /** Fires when the turn is given up, and when its caller has left. */
  get abort(): AbortSource {
    const abort = (this.abortSource ??= new AbortSource());
    if (this.givenUp !== undefined) abort.fire(this.givenUp);
    return abort;
  }

  /** `TurnLimits`, rules 2 and 3. It holds up no commit from now on. */
  giveUp(error: TurnTimedOut): void {
    this.givenUp = error;
    this.end();
    this.abortSource?.fire(error);
  }

  /** Ends the turn, and releases what is bound to its end. Its code may still run. */
  end(): void {
    this.ended = true;
    for (const f of this.endings?.splice(0) ?? []) f();
  }

  /** Runs `f` when the turn ends; never, if it has ended. */
  atEnd(f: () => void): void {
    if (!this.ended) (this.endings ??= []).push(f);
  }

  /**
   * The turn that finishes the input: this one, or its successor if this one was given up, because
   * its code may still run in it.
   */
  get rest(): Turn {
    if (this.givenUp === undefined) return this;
    if (this.successor === undefined) {
      const { cause, owner, durable, connection, request, email, input, conceals } = this;
      const context = { connection, request, conceals, ...(input !== undefined && { input }) };
      const successor = (this.successor = new Turn({ cause, owner, durable, ...context }));
      successor.email = email;
      successor.steps = this.steps?.successor();
      successor.webhooksSent = this.webhooksSent;
      successor.mailsSent = this.mailsSent;
    }
    return this.successor.rest;
  }

  /** Whether anything of its input is hidden. */
  get hides(): boolean {
    return this.conceals !== undefined && this.conceals.length > 0;
  }

  /** The text without what is hidden of its input. */
  conceal(text: string): string {
    return this.conceals === undefined ? text : conceal(text, this.conceals);
  }

  /** The error without what is hidden; the error itself if nothing is. */
  concealError(error: unknown): unknown {
    if (!this.hides || error === undefined) return error;
    if (!(error instanceof Error)) return this.conceal(messageOf(error));
    const concealed = new Error(this.conceal(messageOf(error)));
    concealed.name = nameOf(error);
    concealed.stack = this.conceal(ownStackOf(error));
    return concealed;
  }

  /** Whether its input exists only in this process. */
  get unstored(): boolean {
    return this.input !== undefined;
  }

  /** Stores the input before any event records it as begun (`DirectInput`, rule 2). */
  async storeInput(publish: (data: Uint8Array) => Promise<Sequence>): Promise<void> {
    if (this.input === undefined) return;
    const seq = await this.input.store(publish);
    this.cause = { ...this.cause, seq };
    this.input = undefined;
  }

  wroteSql(text: string): void {
    if (this.sql.length < SQL_TEXTS_MAX)
      this.sql.push(text.length > SQL_TEXT_MAX ? text.slice(0, SQL_TEXT_MAX) + "…" : text);
  }
}

/** The turn as the function of a step sees it: the same turn, with the step. */
export const seenFrom = (scope: StepScope): Turn => viewOf(scope.turn, { step: { value: scope } });

/** The turn, or a view of it, as code of a block sees it. */
export const within = (turn: Turn, block: Block): Turn => viewOf(turn, { block: { value: block } });

function viewOf(turn: Turn, more: PropertyDescriptorMap): Turn {
  const { whole } = turn;
  return Object.create(turn, {
    ...more,
    // Read from the turn itself, which has private fields.
    abort: { get: () => whole.abort },
    rest: { get: () => whole.rest },
  }) as Turn;
}
