/**
 * An agent's durable inputs, from delivery to ack.
 *
 * 1. Inputs begin in stored order, in slices of time. They interleave at awaits like any turn, at
 *    most `TURNS_MAX`.
 * 2. At most `HELD_MAX` inputs are held with their bytes. Of the others only the sequence numbers
 *    are held, and each is read again when its turn comes: a flooded agent costs its shard neither
 *    memory nor order.
 * 3. An input runs iff its key is not done; the journal decides, not the broker. A repetition of an
 *    input that is running waits for that run, and then finds the key done.
 * 4. An input is acked and answered only after the event that finishes it is stored (`InputRuns`).
 * 5. A failed run is journaled, and delivered again after its backoff, or dead-lettered
 *    (`InputRuns`).
 * 6. An input that was not stored first (`DirectInput`) is an input like the others, and is always
 *    held with its bytes.
 * 7. A webhook for an entity other than the agent's own is refused before its turn
 *    (`sluggedEntity`): it is answered 409, and dead-lettered if it was stored. The journal does
 *    not mention it.
 *
 * The host's inbox consumer and gateways' calls feed it; it feeds `InputRuns`.
 */
import { isUnreadable } from "../../schemas/Frame.ts";
import type { InboxEnvelope, InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { Delivery, InputHandle } from "../inbox/Inbox.ts";
import { conflictReason, isSameEntity } from "../webhook/sluggedEntity.ts";
import { deathOf, isDead } from "./deadInputs.ts";
import type { AgentInput } from "./AgentInput.ts";
import type { DirectEnd, DirectInput } from "./DirectInput.ts";
import { REFUSED, REPEATED } from "./fixedAnswers.ts";
import { InputRuns, type RunAgent, type RunHost } from "./InputRuns.ts";
import { InputDoubts, type Trust } from "./InputDoubts.ts";
import { StoredInput, type AnswerOutlet } from "./StoredInput.ts";
import { messageOf } from "../errors/thrown.ts";
import { turnSlicesOf, type TimeSlices } from "../time/TimeSlices.ts";

/** Turns of one agent that run or wait for their commit: enough for a full group commit. */
const TURNS_MAX = 256;
/** Inputs of one agent held with their bytes while they wait. */
const HELD_MAX = 64;
/** An input that could not be read (the broker is unavailable) is requested again after this. */
const REREAD_MS = 1000;

/** The agent whose inputs these are. */
interface MailboxAgent extends RunAgent {
  readonly lanes: RunAgent["lanes"] & {
    offer(kind: "queue" | "schedule", key: string, handle: InputHandle): void;
  };
  /** Turns are held back, or the agent is being destroyed. */
  readonly isBlocked: boolean;
  /** Resolves when nothing holds turns back. Rejects with `AgentDiscarded`. */
  unblocked(): Promise<void>;
}

export interface MailboxHost extends AnswerOutlet, RunHost {
  /**
   * Stored bytes of an input held by number only; undefined when it was acked meanwhile. Rejects
   * with `BrokerUnavailable`, or `CorruptFrame` if its body is lost.
   */
  readonly read: (seq: Delivery["seq"]) => Promise<Uint8Array | undefined>;
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
  private readonly doubts: InputDoubts;
  private readonly waiting: AgentInput[] = [];
  private withBytes = 0;
  private pumping = false;
  /** The entity of the first webhook that began here: its event may not be stored yet. */
  private entityBegun: string | undefined;
  /** At most `TURNS_MAX`, mostly one: a scan costs less than a `Map` that fills and empties. */
  private readonly running: Running[] = [];
  private readonly runs: InputRuns;
  private readonly slices: TimeSlices;

  constructor(
    private readonly agent: MailboxAgent,
    private readonly host: MailboxHost,
    trust: Trust = {},
  ) {
    this.slices = turnSlicesOf(agent.time);
    this.doubts = new InputDoubts(agent, trust);
    this.runs = new InputRuns(agent, host, this.doubts);
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

  /** Drops inputs that have not begun. The inbox keeps them for the next owner, or the gateway. */
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

  /**
   * Begins inputs in order, until one has to be read again, or the agent is blocked, or the slice
   * is used up. `mayBegin`: the first one has waited for its slice.
   */
  private pump(mayBegin = false): void {
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
        const pause = mayBegin ? undefined : this.slices.turn(this.agent.image.id);
        if (pause !== undefined || input.data === undefined || this.agent.isBlocked) {
          void this.pumpLater(input, pause);
          return;
        }
        mayBegin = false;
        this.waiting.shift();
        this.withBytes--;
        this.begin(input, input.data);
      }
    } finally {
      if (!this.loading) this.pumping = false;
    }
  }
  private loading = false;

  private async pumpLater(input: AgentInput, pause: Promise<void> | undefined): Promise<void> {
    this.loading = true;
    try {
      if (pause !== undefined) await pause;
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
      if (this.agent.discarded || this.waiting[0] !== input) return;
      this.waiting.shift();
      // Its body is lost.
      if (isUnreadable(error)) this.endUnreadable(input, error);
      else {
        // The broker is unavailable: the input stays stored and is delivered again.
        this.agent.log.warn("an input could not be read again; it will be redelivered", {
          seq: input.seq,
          error: String(error),
        });
        input.nak(REREAD_MS);
      }
    } finally {
      this.loading = false;
      this.pumping = false;
      this.pump(true);
    }
  }

  /** Undefined: it can't be read, and goes to the dead letters. */
  private read(input: AgentInput, data: Uint8Array): InboxEnvelope | undefined {
    try {
      return input.read(data);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
      this.endUnreadable(input, error);
      return undefined;
    }
  }

  /** Runs an input, or ends it without a run. */
  private begin(input: AgentInput, data: Uint8Array): void {
    const envelope = this.read(input, data);
    if (envelope === undefined) return;
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
    const restMs = this.runs.restMs(head.key);
    if (restMs > 0) return input.nak(restMs);
    const keys = [head.key, ...(head.alsoKeys ?? [])];
    const same = this.running.find((other) => other.keys.some((key) => keys.includes(key)));
    if (same !== undefined) {
      same.repeated.push(input);
      return;
    }
    this.start({ keys, input, repeated: [] }, envelope);
  }

  private start(running: Running, envelope: InboxEnvelope): void {
    const { input } = running;
    this.running.push(running);
    const ended = (): void => {
      this.running.splice(this.running.indexOf(running), 1);
      this.doubts.over(envelope.head.key);
      // Does nothing if the input has already ended.
      input.leave();
      if (this.agent.discarded) return;
      for (const again of running.repeated) this.begin(again, again.data!);
      this.pump();
    };
    this.runs.run(input, envelope).then(ended, (error: unknown) => {
      if (!this.agent.discarded)
        this.agent.abort(`an input could not be finished: ${messageOf(error)}`);
      ended();
    });
  }

  /** Rule 7. */
  private refuse(input: AgentInput, head: InboxHead, owner: string): void {
    const reason = conflictReason(head.entity!, owner);
    this.host.onEntityConflict();
    if (input.direct === undefined)
      return void this.deadLetter(input, reason).then(
        () => input.answer(head.reply, REFUSED),
        () => input.nak(REREAD_MS),
      );
    this.agent.log.warn("a webhook was refused", {
      key: head.key,
      delivery: head.delivery,
      reason,
    });
    input.answer(head.reply, REFUSED, { refused: "its agent belongs to another entity" });
  }

  private endUnreadable(input: AgentInput, { message }: Error): void {
    this.deadLetter(input, message).catch(() => input.nak(REREAD_MS));
  }

  private async deadLetter(input: AgentInput, reason: string): Promise<void> {
    const { seq } = input;
    this.agent.log.error("an input can't be run; it becomes a dead letter", { seq, reason });
    const bytes = input.encoded ?? input.data;
    await this.host.deadLetter(input, { reason, undone: false, death: deathOf(input) }, bytes);
    input.ack();
  }
}
