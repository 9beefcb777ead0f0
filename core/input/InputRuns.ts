/**
 * One run of a durable input: which attempt it is, its turn, and its end, which is done, dead, or
 * another attempt later. `Mailbox` decides which input runs when, and numbers the rules:
 *
 * 4. An input is acked and answered only after the event that finishes it is stored.
 * 5. A failed run is journaled, so that its attempt counts across hosts, and delivered again after
 *    its backoff. After the last failed attempt its steps are undone, the input is stored
 *    as a dead letter (`failForGood`), then journaled as dead, then acked.
 */
import type { Sequence } from "../../schemas/Address.ts";
import type { InboxEnvelope, InboxHead } from "../../schemas/InboxEnvelope.ts";
import { withEntry, without } from "../collections/sparse.ts";
import { reasonText } from "../errors/failureText.ts";
import type { GivenUp } from "../dead/DeadLetters.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import { causeOfEnvelope } from "../journal/causeOf.ts";
import { hideFields } from "../redaction/FieldRedaction.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { backoffMs, lastAttempt, retryOf } from "../retry/retryPolicy.ts";
import { failForGood } from "../turn/failForGood.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { Turn } from "../turn/Turn.ts";
import type { TurnEnd } from "../turn/TurnEnd.ts";
import type { AgentInput } from "./AgentInput.ts";
import { asSentAgain, deadKeys, deathOf } from "./deadInputs.ts";
import { isReportedByGateway } from "./DirectInput.ts";
import { INTERNAL_ERROR } from "./fixedAnswers.ts";
import type { InputDoubts } from "./InputDoubts.ts";
import { runEnvelope, type EnvelopeAgent } from "./runEnvelope.ts";
import type { Suspects } from "./Suspects.ts";
import type { Unbegun } from "./Unbegun.ts";

export interface RunAgent extends AgentTurns, EnvelopeAgent {
  readonly options: { readonly retry?: RetryOptions; readonly redact?: ReadonlyArray<string> };
  readonly suspects: Suspects;
  readonly destroyed: boolean;
  /** Discarded but not destroyed: the next owner repeats what ran here. */
  readonly isLost: boolean;
}

export interface RunHost {
  /**
   * Stores a dead letter. `input`: its bytes; they are read from the inbox by default, and are
   * empty where they are lost. Rejects with `BrokerUnavailable`.
   */
  readonly deadLetter: (
    delivery: InputHandle,
    letter: GivenUp,
    input?: Uint8Array,
  ) => Promise<void>;
  readonly unbegun: Pick<Unbegun, "knowsEndings">;
}

/** How the code of an input that is done ended. An `error` was suppressed by `onError`. */
interface Outcome {
  readonly response: ResponseParts;
  readonly error: string | undefined;
}

export class InputRuns {
  /** By key, on the monotonic clock. The stored copy of a failed `DirectInput` waits until then. */
  private resting: Map<string, number> | undefined;

  constructor(
    private readonly agent: RunAgent,
    private readonly host: RunHost,
    private readonly doubts: InputDoubts,
  ) {}

  /** Milliseconds until an input's next attempt may begin; 0: now. */
  restMs(key: string): number {
    const ms = (this.resting?.get(key) ?? 0) - this.agent.time.monotonicMs();
    if (ms <= 0) this.resting = without(this.resting, key);
    return Math.max(0, ms);
  }

  /** Resolves when the run has ended and its event is stored. Rejects if it can't be finished. */
  async run(input: AgentInput, envelope: InboxEnvelope): Promise<void> {
    const { agent } = this;
    const { head } = envelope;
    const undoing = agent.image.undoing(head.key);
    const { attempt, isOver } = this.attemptOf(head, undoing !== undefined);
    let turn = this.turnOf(input, envelope, attempt);
    if (isOver) {
      this.doubts.exhausted(head.key);
      const error = undoing ?? agent.suspects.exhausted(head.key);
      return this.finishDead(input, turn, envelope, error);
    }
    const passed = this.doubts.pass(turn, head.time, attempt);
    const cleared = passed === undefined ? undefined : await passed;
    let response: ResponseParts | undefined;
    let error: string | undefined;
    try {
      response = await agent.run(turn, () => runEnvelope(agent, turn, envelope));
    } catch (thrown) {
      if (agent.isLost) return;
      turn = turn.rest;
      const suppressed = await agent.handleError(turn, thrown);
      error = turn.conceal(reasonText(thrown));
      if (suppressed) response = INTERNAL_ERROR;
    } finally {
      cleared?.();
    }
    if (agent.destroyed) return this.endDestroyed(input, head, response ?? INTERNAL_ERROR);
    if (agent.discarded) return;
    if (undoing !== undefined) return this.finishDead(input, turn, envelope, undoing);
    // Awaited here, since a promise that an async function returns costs two more steps.
    if (response !== undefined)
      return await this.finishDone(input, turn, envelope, { response, error });
    if (attempt >= retryOf(agent).maxAttempts) return this.finishDead(input, turn, envelope, error);
    return this.repeatLater(input, turn, { head, attempt, error });
  }

  /**
   * The number of this attempt, by key: two copies that are tried in turn share their attempts, or
   * neither would ever use them up. `isOver`: there is no attempt left.
   */
  private attemptOf(
    { key }: InboxHead,
    isUndoing: boolean,
  ): { readonly attempt: number; readonly isOver: boolean } {
    const { image, suspects } = this.agent;
    const begun = image.begun.get(key);
    const isKnown = begun !== undefined || this.host.unbegun.knowsEndings;
    const attempt = isKnown ? suspects.next(key, begun?.attempts ?? 0) : 1;
    // A run with an unknown outcome may have been the last one allowed: at most one more, marked.
    const isEnded = attempt > 1 && suspects.ended(key) === attempt - 1;
    const last = lastAttempt(retryOf(this.agent), { isUndoing, isKnown: isEnded });
    return { attempt, isOver: attempt > last };
  }

  private turnOf(input: AgentInput, envelope: InboxEnvelope, attempt: number): Turn {
    const { agent } = this;
    const hidden = hideFields(envelope, agent.options.redact);
    const caused = asSentAgain(agent.image.done, envelope.head);
    return new Turn({
      cause: causeOfEnvelope(caused, hidden.body, input.seq, attempt),
      conceals: hidden.values,
      owner: agent,
      durable: true,
      ...(input.direct === undefined ? {} : { input: input.direct }),
    });
  }

  /** Rule 5: the attempt failed, and there are more. */
  private async repeatLater(
    input: AgentInput,
    turn: Turn,
    {
      head,
      attempt,
      error,
    }: { readonly head: InboxHead; readonly attempt: number; readonly error: string | undefined },
  ): Promise<void> {
    const { agent } = this;
    turn.outcome = { done: [], dead: false, error };
    const delayMs = backoffMs(retryOf(agent), attempt, agent.time.random());
    await this.commitEnd(turn, (seq) => {
      this.report(turn, { status: "failed", seq, error, nextInMs: delayMs });
      if (input.direct !== undefined)
        this.resting = withEntry(this.resting, head.key, agent.time.monotonicMs() + delayMs);
      input.nak(delayMs);
    });
  }

  /** The input is done. Not `async`, which saves promises for each input. */
  private finishDone(
    input: AgentInput,
    turn: Turn,
    { head }: InboxEnvelope,
    { response, error }: Outcome,
  ): Promise<void> {
    turn.outcome = { done: [head.key, ...(head.alsoKeys ?? [])], dead: false, error };
    return this.commitEnd(turn, (seq) => {
      input.ack();
      if (isReportedByGateway(input, head, this.agent.time.nowMs()))
        return input.answer(head.reply, response, { seq });
      this.report(turn, { status: "done", seq, http: response.status, error });
      input.answer(head.reply, response, { seq, reported: true });
    });
  }

  /** Rule 5: the input is dead. */
  private async finishDead(
    input: AgentInput,
    turn: Turn,
    { head }: InboxEnvelope,
    error = "it failed",
  ): Promise<void> {
    const { undone } = await failForGood(this.agent, turn, error, (letter) => {
      const reason = turn.conceal(letter.reason);
      return this.host.deadLetter(
        input,
        { ...letter, reason, death: deathOf(input, head) },
        input.encoded,
      );
    });
    turn.outcome = { done: deadKeys(input, head, undone), dead: true, error };
    await this.commitEnd(turn, (seq) => {
      if (this.host.unbegun.knowsEndings) this.agent.suspects.settled(head.key);
      input.ack();
      this.report(turn, { status: "dead", seq, http: INTERNAL_ERROR.status, error });
      input.answer(head.reply, INTERNAL_ERROR, { seq, reported: true, dead: true });
    });
  }

  private report(turn: Turn, end: Omit<TurnEnd, "attempts">): void {
    const { maxAttempts: attempts } = retryOf(this.agent);
    this.agent.report(turn, { ...end, attempts });
  }

  /**
   * Ends an input of a destroyed agent. The input that destroyed it is done; any other goes to the
   * new agent.
   */
  private endDestroyed(input: AgentInput, head: InboxHead, response: ResponseParts): void {
    if (this.agent.image.done.seqOf(head.key) === undefined) return;
    input.ack();
    input.answer(head.reply, response);
  }

  /**
   * Ends the turn, and calls `stored` with the sequence of its event once that is stored. Resolves
   * after it; never for an agent that is discarded meanwhile.
   */
  private commitEnd(turn: Turn, stored: (seq: Sequence) => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.agent.discarded) return reject(new Error("discarded"));
      this.agent.committer.end(turn);
      this.agent.committer.afterCommit((seq) => resolve(stored(seq)));
    });
  }
}
