/**
 * An agent's durable inputs, from delivery to ack.
 *
 * 1. Inputs begin in stored order. They interleave at awaits like any turn, at most `TURNS_MAX`.
 * 2. At most `HELD_MAX` inputs are held with their bytes. Of the others only the sequence numbers
 *    are held, and each is read again when its turn comes: a flooded agent costs its shard neither
 *    memory nor order.
 * 3. An input runs iff its key is not done; the journal decides, not the broker. A repetition of an
 *    input that is running waits for that run, and then finds the key done.
 * 4. An input is acked and answered only after the event that finishes it is stored.
 * 5. A failed run is journaled, so that its attempt counts across hosts, and delivered again after
 *    its backoff. After the last failed attempt its steps are undone (`AgentTurns.undo`), the
 *    input is stored as a dead letter, then journaled as dead, then acked.
 * 6. An input that was not stored first (`DirectInput`) is an input like the others, and is always
 *    held with its bytes.
 * 7. A webhook of another entity than the agent's own is refused before its turn (`sluggedEntity`):
 *    answered 409, and dead-lettered where it was stored. The journal does not mention it.
 *
 * The host's inbox consumer and gateways' calls feed it; it feeds `ActiveAgent.run` and the
 * answers.
 */
import type { Sequence } from "../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import type { InboxEnvelope, InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { Delivery, InputHandle } from "../inbox/Inbox.ts";
import { conflictReason, isSameEntity } from "../webhook/sluggedEntity.ts";
import { hideFields } from "../redaction/FieldRedaction.ts";
import { causeOfEnvelope } from "../journal/causeOf.ts";
import type { AgentTurns, Undone } from "../turn/AgentTurns.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { Suspects } from "./Suspects.ts";
import { asSentAgain, deadKeys, isDead } from "./deadInputs.ts";
import type { AgentInput } from "./AgentInput.ts";
import { isReportedByGateway, type DirectEnd, type DirectInput } from "./DirectInput.ts";
import { failureText } from "../errors/failureText.ts";
import { INTERNAL_ERROR, REFUSED, REPEATED } from "./fixedAnswers.ts";
import type { Unbegun } from "./Unbegun.ts";
import { InputDoubts, type Trust } from "./InputDoubts.ts";
import { backoffMs, lastAttempt, retryOf } from "../retry/retryPolicy.ts";
import { StoredInput, type AnswerOutlet } from "./StoredInput.ts";
import { runEnvelope, type EnvelopeAgent } from "./runEnvelope.ts";
import { SparseMap } from "../collections/sparse.ts";
import { Turn } from "../turn/Turn.ts";

/** Turns of one agent that run or wait for their commit: enough for a full group commit. */
const TURNS_MAX = 256;
/** Inputs of one agent held with their bytes while they wait. */
const HELD_MAX = 64;
/** An input that could not be read (the broker is away) is asked for again after this. */
const REREAD_MS = 1000;

/** The agent whose inputs these are. */
export interface MailboxAgent extends AgentTurns, Omit<EnvelopeAgent, "lanes"> {
  readonly options: { readonly retry?: RetryOptions; readonly redact?: ReadonlyArray<string> };
  readonly suspects: Suspects;
  readonly lanes: EnvelopeAgent["lanes"] & {
    offer(kind: "queue" | "schedule", key: string, handle: InputHandle): void;
  };
  /** Turns are held back, or the agent is being destroyed. */
  readonly isBlocked: boolean;
  /** Resolves when nothing holds turns back. Rejects with `AgentDiscarded`. */
  unblocked(): Promise<void>;
  readonly destroyed: boolean;
  /** Discarded, and not because it was destroyed: the next owner does again what ran here. */
  readonly isLost: boolean;
}

export interface MailboxHost extends AnswerOutlet {
  /** Stored bytes of an input held by number only; undefined when it was acked meanwhile. */
  readonly read: (seq: Delivery["seq"]) => Promise<Uint8Array | undefined>;
  /**
   * Stores a dead letter. `input`: its bytes, where the inbox does not have them. Rejects with
   * `BrokerUnavailable`.
   */
  readonly deadLetter: (delivery: InputHandle, letter: Undone, input?: Uint8Array) => Promise<void>;
  readonly unbegun: Pick<Unbegun, "knowsEndings">;
  readonly onDuplicate: () => void;
  readonly onEntityConflict: () => void;
}

/** An input that runs, and the repetitions that wait for it. */
interface Running {
  readonly keys: ReadonlyArray<string>;
  readonly input: AgentInput;
  readonly repeated: AgentInput[];
}

export class Mailbox {
  private readonly agent: MailboxAgent;
  private readonly host: MailboxHost;
  private readonly doubts: InputDoubts;
  private readonly waiting: AgentInput[] = [];
  private withBytes = 0;
  private pumping = false;
  /** The entity of the first webhook that began here: its event may not be stored yet. */
  private entityBegun: string | undefined;
  /**
   * At most `TURNS_MAX`, nearly always one: a scan costs less than a `Map` that fills and empties.
   */
  private readonly running: Running[] = [];
  /**
   * Monotonic, by key: the stored copy of a failed `DirectInput` arrives at once and waits until
   * then.
   */
  private readonly resting = new SparseMap<string, number>();

  constructor(agent: MailboxAgent, host: MailboxHost, trust: Trust = {}) {
    this.agent = agent;
    this.host = host;
    this.doubts = new InputDoubts(agent, trust);
  }

  get idle(): boolean {
    return this.waiting.length === 0 && this.running.length === 0;
  }

  /** Accepts an input; without `data` it is read from the inbox when its turn comes. */
  deliver(handle: InputHandle, data?: Uint8Array): void {
    const keep = data !== undefined && this.withBytes < HELD_MAX;
    if (keep) this.withBytes++;
    this.waiting.push(new StoredInput(handle, keep ? data : undefined, this.host));
    this.pump();
  }

  /** Rule 6. Resolves to the input's end. */
  give(input: DirectInput): Promise<DirectEnd> {
    if (this.agent.discarded || this.withBytes >= HELD_MAX) input.nak();
    else {
      this.withBytes++;
      this.waiting.push(input);
      this.pump();
    }
    return input.ended;
  }

  /**
   * Drops inputs that have not begun: the inbox has them for the next owner, or the gateway stores
   * them.
   */
  stop(): void {
    for (const input of this.waiting) input.leave();
    this.waiting.length = 0;
    this.withBytes = 0;
  }

  /** The agent was discarded: runs that are under way may never end. */
  abandon(): void {
    this.stop();
    for (const { input, repeated } of this.running)
      for (const each of [input, ...repeated]) each.leave();
  }

  /** Begins inputs in order, until one has to be read again or the agent is blocked. */
  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.waiting.length > 0 && this.running.length < TURNS_MAX && !this.agent.discarded) {
        const input = this.waiting[0]!;
        if (this.doubts.closed) return;
        if (this.agent.committer.holding) {
          this.agent.committer.whenReleased(() => this.pump());
          return;
        }
        if (input.data === undefined || this.agent.isBlocked) {
          void this.pumpLater(input);
          return;
        }
        this.waiting.shift();
        this.withBytes--;
        this.begin(input, input.data);
      }
    } finally {
      if (!this.loading) this.pumping = false;
    }
  }
  private loading = false;

  private async pumpLater(input: AgentInput): Promise<void> {
    this.loading = true;
    try {
      await this.agent.unblocked();
      if (input.data === undefined) {
        const data = await this.host.read(input.seq);
        if (this.waiting[0] !== input) return; // stopped meanwhile
        if (data === undefined) {
          this.waiting.shift();
          input.ack(); // it is not stored any more: only its handle is released
        } else {
          input.data = data;
          this.withBytes++;
        }
      }
    } catch (error) {
      // The broker is away or the agent was discarded: the input stays stored and comes again.
      if (!this.agent.discarded && this.waiting[0] === input) {
        this.agent.log.warn("an input could not be read again; it will be redelivered", {
          seq: input.seq,
          error: String(error),
        });
        this.waiting.shift();
        input.nak(REREAD_MS);
      }
    } finally {
      this.loading = false;
      this.pumping = false;
      this.pump();
    }
  }

  private begin(input: AgentInput, data: Uint8Array): void {
    let envelope: InboxEnvelope;
    try {
      envelope = input.read(data);
    } catch (error) {
      if (!(error instanceof CorruptFrame || error instanceof UnknownVersion)) throw error;
      this.deadLetter(input, error.message).catch(() => input.nak(REREAD_MS));
      return;
    }
    const { head } = envelope;
    if (isDead(this.agent.image.done, input, head)) {
      input.ack();
      return;
    }
    // A trigger of a job: the agent's own tables decide what runs.
    if (head.kind === "queue" || head.kind === "schedule") {
      input.data = undefined; // held until the job is settled, and not looked at again
      return this.agent.lanes.offer(head.kind, head.key, input);
    }
    if (head.entity !== undefined) {
      const owner = (this.entityBegun ??= this.agent.image.entity ?? head.entity);
      if (!isSameEntity(owner, head.entity)) return this.refuse(input, head, owner);
    }
    const doneAt = this.agent.image.done.seqOfAny(head.key, head.alsoKeys);
    if (doneAt !== undefined) {
      input.ack();
      this.host.onDuplicate();
      input.answer(head.reply, REPEATED, { duplicateOf: doneAt });
      return;
    }
    const restMs = (this.resting.get(head.key) ?? 0) - this.agent.time.monotonicMs();
    if (restMs > 0) return input.nak(restMs);
    this.resting.delete(head.key);
    const keys = [head.key, ...(head.alsoKeys ?? [])];
    const same = this.running.find((other) => other.keys.some((key) => keys.includes(key)));
    if (same !== undefined) {
      same.repeated.push(input);
      return;
    }
    const running: Running = { keys, input, repeated: [] };
    this.running.push(running);
    const ended = (): void => {
      this.running.splice(this.running.indexOf(running), 1);
      this.doubts.over(head.key);
      // Does nothing when it has ended otherwise.
      input.leave();
      if (this.agent.discarded) return;
      for (const again of running.repeated) this.begin(again, again.data!);
      this.pump();
    };
    this.runInput(input, envelope).then(ended, (error: unknown) => {
      if (!this.agent.discarded)
        this.agent.abort(`an input could not be finished: ${String(error)}`);
      ended();
    });
  }

  /** Rule 7. */
  private refuse(input: AgentInput, head: InboxHead, owner: string): void {
    const reason = conflictReason(head.entity!, owner);
    this.host.onEntityConflict();
    const answered = (): void => input.answer(head.reply, REFUSED);
    if (input.direct === undefined)
      return void this.deadLetter(input, reason).then(answered, () => input.nak(REREAD_MS));
    this.agent.log.warn("a webhook is refused", {
      key: head.key,
      delivery: head.delivery,
      reason,
    });
    answered();
  }

  private async runInput(input: AgentInput, envelope: InboxEnvelope): Promise<void> {
    const { agent } = this;
    const { head } = envelope;
    // By key: two copies that are tried in turn share their attempts, or neither would ever spend
    // them.
    const begun = agent.image.begun.get(head.key);
    const isKnown = begun !== undefined || this.host.unbegun.knowsEndings;
    const attempt = isKnown ? agent.suspects.next(head.key, begun?.attempts ?? 0) : 1;
    const retry = retryOf(agent);
    const undoing = agent.image.undoing(head.key);
    const hidden = hideFields(envelope, agent.options.redact);
    const caused = asSentAgain(agent.image.done, head);
    let turn = new Turn({
      cause: causeOfEnvelope(caused, hidden.body, input.seq, attempt),
      conceals: hidden.values,
      owner: agent,
      durable: true,
      ...(input.direct === undefined ? {} : { input: input.direct }),
    });
    // A run with an unknown outcome may have been the last one allowed: at most one more, marked.
    const isEnded = attempt > 1 && agent.suspects.ended(head.key) === attempt - 1;
    if (attempt > lastAttempt(retry, { isUndoing: undoing !== undefined, isKnown: isEnded })) {
      const error = undoing ?? agent.suspects.exhausted(head.key);
      return this.finish(input, turn, envelope, { error });
    }
    const passed = this.doubts.pass(turn, head.time, attempt);
    const cleared = passed === undefined ? undefined : await passed;
    let response: ResponseParts | undefined;
    let failure: string | undefined;
    try {
      response = await agent.run(turn, () => runEnvelope(agent, turn, envelope));
    } catch (error) {
      if (agent.isLost) return;
      turn = turn.rest;
      const suppressed = await agent.handleError(turn, error);
      failure = turn.conceal(failureText(error));
      if (suppressed) response = INTERNAL_ERROR;
    } finally {
      cleared?.();
    }
    if (agent.destroyed) return this.endDestroyed(input, head, response ?? INTERNAL_ERROR);
    if (agent.discarded) return;
    if (undoing !== undefined) return this.finish(input, turn, envelope, { error: undoing });
    if (response !== undefined)
      return this.finish(input, turn, envelope, {
        response,
        ...(failure === undefined ? {} : { error: failure }),
      });
    if (attempt >= retry.maxAttempts)
      return this.finish(input, turn, envelope, { error: failure ?? "it failed" });
    turn.outcome = { done: [], dead: false, error: failure };
    const delayMs = backoffMs(retry, attempt, agent.time.random());
    const seq = await this.commitEnd(turn);
    const { maxAttempts: attempts } = retry;
    agent.report(turn, { status: "failed", seq, error: failure, attempts, nextInMs: delayMs });
    if (input.direct !== undefined) this.resting.set(head.key, agent.time.monotonicMs() + delayMs);
    input.nak(delayMs);
  }

  /** The input's end: done with a response, or dead (rule 5). */
  private async finish(
    input: AgentInput,
    turn: Turn,
    { head }: InboxEnvelope,
    end: { readonly response?: ResponseParts; readonly error?: string },
  ): Promise<void> {
    const dead = end.response === undefined;
    const letter = dead ? await this.agent.undo(turn, end.error ?? "it failed") : undefined;
    if (letter !== undefined) {
      const reason = turn.conceal(letter.reason);
      await this.host.deadLetter(input, { ...letter, reason }, input.encoded);
    }
    turn.outcome = {
      done: letter ? deadKeys(input, head, letter.undone) : [head.key, ...(head.alsoKeys ?? [])],
      dead,
      error: end.error,
    };
    const seq = await this.commitEnd(turn);
    if (dead && this.host.unbegun.knowsEndings) this.agent.suspects.settled(head.key);
    input.ack();
    const { error, response = INTERNAL_ERROR } = end;
    if (!dead && isReportedByGateway(input, head, this.agent.time.nowMs()))
      return input.answer(head.reply, response, { seq });
    const status = dead ? "dead" : "done";
    const { maxAttempts: attempts } = retryOf(this.agent);
    this.agent.report(turn, { status, seq, http: response.status, error, attempts });
    input.answer(head.reply, response, { seq, reported: true, ...(dead && { dead }) });
  }

  /** The agent is destroyed. The input that did it is done; any other goes to the fresh agent. */
  private endDestroyed(input: AgentInput, head: InboxHead, response: ResponseParts): void {
    if (this.agent.image.done.seqOf(head.key) === undefined) return;
    input.ack();
    input.answer(head.reply, response);
  }

  /**
   * Ends the turn and waits for its event, whose sequence it resolves to. Never resolves for an
   * agent that is discarded meanwhile.
   */
  private commitEnd(turn: Turn): Promise<Sequence> {
    return new Promise((resolve, reject) => {
      if (this.agent.discarded) return reject(new Error("discarded"));
      this.agent.committer.end(turn);
      this.agent.committer.afterCommit(resolve);
    });
  }

  private async deadLetter(input: AgentInput, reason: string): Promise<void> {
    const { seq } = input;
    this.agent.log.error("an input can't be run; it goes to the dead letters", { seq, reason });
    await this.host.deadLetter(input, { reason, undone: false });
    input.ack();
  }
}
