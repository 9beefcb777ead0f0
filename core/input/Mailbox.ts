/**
 * An agent's durable inputs, from delivery to ack.
 *
 * 1. Inputs begin in stored order; they interleave at awaits like any turn, `TURNS_MAX` at most.
 * 2. At most `HELD_MAX` inputs are held with their bytes; past that only their sequence numbers are,
 *    and each is read again when its turn comes. A flooded agent costs its shard neither memory nor order.
 * 3. An input runs iff its key is not done (the journal decides, not the broker). One that runs already
 *    is not begun a second time: its repetition waits, and then finds the key done.
 * 4. An input is acked only after the event that finishes it is stored, and answered then too.
 * 5. A failed run is journaled (its attempt counts, across hosts) and delivered again after its backoff;
 *    the last failed attempt goes to the dead letters first, then to the journal, then it is acked.
 * 6. One that was not stored first (`DirectInput`) is an input like the others, and never held by number only.
 * 7. A webhook of another entity than the agent's own is refused before its turn (`sluggedEntity`):
 *    answered 409, and dead-lettered where it was stored. The journal does not mention it.
 *
 * Fed by the host's inbox consumer and by calls of gateways; feeds `ActiveAgent.run` and the answer outlet.
 */
import type { InputAnswer } from "../../schemas/Call.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { decodeEnvelope, type InboxEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { ResponseParts } from "../http/takeResponse.ts";
import type { Delivery, InputHandle } from "../inbox/Inbox.ts";
import { conflictReason, isSameEntity } from "../webhook/sluggedEntity.ts";
import { causeOfEnvelope } from "../journal/causeOf.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import type { Suspects } from "./Suspects.ts";
import { deadKeys, isDead } from "./deadInputs.ts";
import { DirectInput, type DirectEnd } from "./DirectInput.ts";
import { INTERNAL_ERROR, REFUSED, REPEATED } from "./fixedAnswers.ts";
import { InputDoubts } from "./InputDoubts.ts";
import { backoffMs, retryOf } from "../retry/retryPolicy.ts";
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
  readonly options: { readonly retry?: RetryOptions };
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

export interface MailboxHost {
  /** Stored bytes of an input that was held by number only; undefined when it was acked meanwhile. */
  readonly read: (seq: Delivery["seq"]) => Promise<Uint8Array | undefined>;
  readonly answer: (subject: string, answer: InputAnswer, body: Uint8Array | string) => void;
  /** Stores a dead letter; `input`: of one that does not lie in the inbox. Rejects with `BrokerUnavailable`. */
  readonly deadLetter: (delivery: InputHandle, reason: string, input?: Uint8Array) => Promise<void>;
  readonly onTurn: () => void;
  readonly onDuplicate: () => void;
  readonly onEntityConflict: () => void;
}

interface Held {
  /** A `DirectInput` where it was not stored first. */
  readonly delivery: InputHandle;
  data: Uint8Array | undefined;
}

/** An input that runs, and repetitions of it that wait for that. */
interface Running {
  readonly keys: ReadonlyArray<string>;
  readonly held: Held;
  readonly repeated: Held[];
}

export class Mailbox {
  private readonly agent: MailboxAgent;
  private readonly host: MailboxHost;
  private readonly doubts: InputDoubts;
  private readonly waiting: Held[] = [];
  private withBytes = 0;
  private pumping = false;
  /** Of the first webhook that began here: its event may not be stored yet. */
  private entityBegun: string | undefined;
  /** Not many (`TURNS_MAX`), nearly always one: looked through, for a `Map` that fills and empties costs more. */
  private readonly running: Running[] = [];
  /** Monotonic, by key: a stored copy of what failed here unstored comes at once, and is not to run before. */
  private readonly resting = new SparseMap<string, number>();

  /** `suspicious`: an input threw the agent out of memory just now. */
  constructor(agent: MailboxAgent, host: MailboxHost, { suspicious = false } = {}) {
    this.agent = agent;
    this.host = host;
    this.doubts = new InputDoubts(agent, suspicious);
  }

  get idle(): boolean {
    return this.waiting.length === 0 && this.running.length === 0;
  }

  /** Takes an input; without `data` it is read from the inbox when its turn comes. */
  deliver(delivery: InputHandle, data?: Uint8Array): void {
    const keep = data !== undefined && this.withBytes < HELD_MAX;
    if (keep) this.withBytes++;
    this.waiting.push({ delivery, data: keep ? data : undefined });
    this.pump();
  }

  /** Rule 6. The input's end says what became of it. */
  give(input: DirectInput): Promise<DirectEnd> {
    if (this.agent.discarded || this.withBytes >= HELD_MAX) input.nak();
    else {
      this.withBytes++;
      this.waiting.push({ delivery: input, data: input.envelope.body });
      this.pump();
    }
    return input.ended;
  }

  /** Forgets what has not begun: it stays stored, for the next owner, or is its gateway's to store. */
  stop(): void {
    for (const { delivery } of this.waiting) if (delivery instanceof DirectInput) delivery.nak();
    this.waiting.length = 0;
    this.withBytes = 0;
  }

  /** The agent was discarded: what ran may never be heard of again. */
  abandon(): void {
    this.stop();
    for (const { held, repeated } of this.running)
      for (const { delivery } of [held, ...repeated])
        if (delivery instanceof DirectInput) delivery.nak();
  }

  /** Starts what may start. Reading an input again and blocked agents make it wait; order is kept. */
  private pump(): void {
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.waiting.length > 0 && this.running.length < TURNS_MAX && !this.agent.discarded) {
        const held = this.waiting[0]!;
        if (this.doubts.closed) return;
        if (this.agent.committer.holding) {
          this.agent.committer.whenReleased(() => this.pump());
          return;
        }
        if (held.data === undefined || this.agent.isBlocked) {
          void this.pumpLater(held);
          return;
        }
        this.waiting.shift();
        this.withBytes--;
        this.begin(held, held.data);
      }
    } finally {
      if (!this.loading) this.pumping = false;
    }
  }
  private loading = false;

  private async pumpLater(held: Held): Promise<void> {
    this.loading = true;
    try {
      await this.agent.unblocked();
      if (held.data === undefined) {
        const data = await this.host.read(held.delivery.seq);
        if (this.waiting[0] !== held) return; // stopped meanwhile
        if (data === undefined) {
          this.waiting.shift();
          held.delivery.ack(); // it is not stored any more: only its handle is let go
        } else {
          held.data = data;
          this.withBytes++;
        }
      }
    } catch (error) {
      // The broker is away or the agent was discarded: the input stays stored and comes again.
      if (!this.agent.discarded && this.waiting[0] === held) {
        this.agent.log.warn("an input could not be read again; it will be redelivered", {
          seq: held.delivery.seq,
          error: String(error),
        });
        this.waiting.shift();
        held.delivery.nak(REREAD_MS);
      }
    } finally {
      this.loading = false;
      this.pumping = false;
      this.pump();
    }
  }

  private begin(held: Held, data: Uint8Array): void {
    const { delivery } = held;
    let envelope: InboxEnvelope;
    try {
      envelope = delivery instanceof DirectInput ? delivery.envelope : decodeEnvelope(data);
    } catch (error) {
      if (!(error instanceof CorruptFrame || error instanceof UnknownVersion)) throw error;
      this.deadLetter(held, error.message).catch(() => held.delivery.nak(REREAD_MS));
      return;
    }
    const { head } = envelope;
    if (isDead(this.agent.image.done, delivery, head)) {
      held.delivery.ack();
      return;
    }
    // Triggers of jobs: the agent's own tables say what runs.
    if (head.kind === "queue" || head.kind === "schedule")
      return this.agent.lanes.offer(head.kind, head.key, held.delivery);
    if (head.entity !== undefined) {
      const owner = (this.entityBegun ??= this.agent.image.entity ?? head.entity);
      if (!isSameEntity(owner, head.entity)) return this.refuse(held, head, owner);
    }
    const doneAt = this.doneAt(envelope);
    if (doneAt !== undefined) {
      held.delivery.ack();
      this.host.onDuplicate();
      this.answer(held, head, REPEATED, doneAt);
      return;
    }
    const restMs = (this.resting.get(head.key) ?? 0) - this.agent.time.monotonicMs();
    if (restMs > 0) return delivery.nak(restMs);
    this.resting.delete(head.key);
    const keys = [head.key, ...(head.alsoKeys ?? [])];
    const same = this.running.find((other) => other.keys.some((key) => keys.includes(key)));
    if (same !== undefined) {
      held.data = data;
      same.repeated.push(held);
      return;
    }
    const running: Running = { keys, held, repeated: [] };
    this.running.push(running);
    const ended = (): void => {
      this.running.splice(this.running.indexOf(running), 1);
      this.doubts.over(head.key);
      // Nothing when it has ended otherwise.
      if (delivery instanceof DirectInput) delivery.nak();
      if (this.agent.discarded) return;
      for (const again of running.repeated) this.begin(again, again.data!);
      this.pump();
    };
    this.runInput(held, envelope).then(ended, (error: unknown) => {
      if (!this.agent.discarded)
        this.agent.abort(`an input could not be finished: ${String(error)}`);
      ended();
    });
  }

  /** Rule 7. */
  private refuse(held: Held, head: InboxHead, owner: string): void {
    const { delivery } = held;
    const reason = conflictReason(head.entity!, owner);
    this.host.onEntityConflict();
    const answered = (): void => this.answer(held, head, REFUSED);
    if (!(delivery instanceof DirectInput))
      return void this.deadLetter(held, reason).then(answered, () => delivery.nak(REREAD_MS));
    this.agent.log.warn("a webhook is refused", { key: head.key, reason });
    answered();
  }

  private doneAt({ head }: InboxEnvelope): number | undefined {
    const { done } = this.agent.image;
    const seq = done.seqOf(head.key);
    if (seq !== undefined || head.alsoKeys === undefined) return seq;
    for (const key of head.alsoKeys) {
      const found = done.seqOf(key);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  private async runInput(held: Held, envelope: InboxEnvelope): Promise<void> {
    const { agent } = this;
    const { delivery } = held;
    const { head } = envelope;
    // By key: two copies that are tried in turn share their attempts, or neither would ever spend them.
    const begun = agent.image.begun.get(head.key);
    const attempt = begun === undefined ? 1 : agent.suspects.next(head.key, begun.attempts);
    const retry = retryOf(agent);
    const turn = new Turn({
      cause: causeOfEnvelope(head, envelope.body, delivery.seq, attempt),
      owner: agent,
      durable: true,
      ...(delivery instanceof DirectInput ? { input: delivery } : {}),
    });
    // A run whose outcome nobody knows may have been the last one allowed: one more, marked, at most.
    if (attempt > retry.maxAttempts + 1) {
      return this.finish(held, turn, envelope, {
        error: "its attempts are exhausted; the last one did not end",
      });
    }
    const passed = this.doubts.pass(turn, head.time, attempt);
    const cleared = passed === undefined ? undefined : await passed;
    this.host.onTurn();
    let response: ResponseParts | undefined;
    let failure: string | undefined;
    try {
      response = await agent.run(turn, () => runEnvelope(agent, turn, envelope));
    } catch (error) {
      if (agent.isLost) return;
      const suppressed = await agent.handleError(turn, error);
      failure = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      if (suppressed) response = INTERNAL_ERROR;
    } finally {
      cleared?.();
    }
    if (agent.destroyed) return this.endDestroyed(held, head, response ?? INTERNAL_ERROR);
    if (agent.discarded) return;
    if (response !== undefined)
      return this.finish(held, turn, envelope, {
        response,
        ...(failure === undefined ? {} : { error: failure }),
      });
    if (attempt >= retry.maxAttempts)
      return this.finish(held, turn, envelope, { error: failure ?? "it failed" });
    turn.outcome = { done: [], dead: false, error: failure };
    const delayMs = backoffMs(retry, attempt, agent.time.random());
    await this.commitEnd(turn);
    if (delivery instanceof DirectInput)
      this.resting.set(head.key, agent.time.monotonicMs() + delayMs);
    delivery.nak(delayMs);
  }

  /** The input's end: done with a response, or dead (rule 5). */
  private async finish(
    held: Held,
    turn: Turn,
    { head }: InboxEnvelope,
    end: { readonly response?: ResponseParts; readonly error?: string },
  ): Promise<void> {
    const dead = end.response === undefined;
    const { delivery } = held;
    if (dead) {
      const input = delivery instanceof DirectInput ? delivery.data : undefined;
      await this.host.deadLetter(delivery, end.error ?? "it failed", input);
    }
    turn.outcome = {
      done: dead ? deadKeys(delivery, head) : [head.key, ...(head.alsoKeys ?? [])],
      dead,
      error: end.error,
    };
    await this.commitEnd(turn);
    delivery.ack();
    this.answer(held, head, end.response ?? INTERNAL_ERROR);
  }

  /** The agent is destroyed: the input that did it is done with that; any other goes to the fresh agent. */
  private endDestroyed(held: Held, head: InboxHead, response: ResponseParts): void {
    if (this.agent.image.done.seqOf(head.key) === undefined) return;
    held.delivery.ack();
    this.answer(held, head, response);
  }

  /** `duplicateOf`: where it was done the first time. */
  private answer(
    { delivery }: Held,
    { reply }: InboxHead,
    response: ResponseParts,
    duplicateOf?: number,
  ): void {
    if (delivery instanceof DirectInput) return delivery.answer(response, duplicateOf);
    if (reply === undefined) return;
    const { status, headers, body } = response;
    const duplicate = duplicateOf === undefined ? {} : { duplicateOf };
    this.host.answer(reply.subject, { id: reply.id, status, headers, ...duplicate }, body);
  }

  /** Ends the turn and waits for its event. Never resolves for an agent that is discarded meanwhile. */
  private commitEnd(turn: Turn): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.agent.discarded) return reject(new Error("discarded"));
      this.agent.committer.end(turn);
      this.agent.committer.afterCommit(() => resolve());
    });
  }

  private async deadLetter(held: Held, reason: string): Promise<void> {
    this.agent.log.error("an input can't be run; it goes to the dead letters", {
      seq: held.delivery.seq,
      reason,
    });
    await this.host.deadLetter(held.delivery, reason);
    held.delivery.ack();
  }
}
