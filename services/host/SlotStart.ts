/**
 * Starts the agent of a slot: one activation at a time, and again with backoff where one failed, or
 * the agent had to leave memory, while inputs wait. `AgentSlot` says when, and what a start is.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { HostServices } from "./HostServices.ts";
import { reasonOf } from "./slotErrors.ts";

/** Delay before a failed activation is retried for waiting inputs: the first, and the longest. */
const RETRY_MS_MIN = 200;
const RETRY_MS_MAX = 30_000;

/** The slot whose agent is started. */
export interface StartingSlot<Live> {
  readonly id: AgentId;
  readonly isLive: boolean;
  /** Whether inputs wait that are still to run here. */
  readonly hasInputs: boolean;
  /** Why nothing may start now; undefined: it may. */
  readonly refusal: Error | undefined;
  start(props: unknown, urgent: boolean): Promise<Live>;
}

export class SlotStart<Live> {
  private activating: Promise<Live> | undefined;
  /** Failures in a row, each with a longer pause. */
  private failures = 0;
  /** The agent had to leave memory, and has stored nothing since. */
  private isUnstored = false;
  private cancelRetry: (() => void) | undefined;

  constructor(
    private readonly slot: StartingSlot<Live>,
    private readonly services: Pick<HostServices, "log" | "time">,
  ) {}

  /** The activation under way. */
  get pending(): Promise<Live> | undefined {
    return this.activating;
  }

  /** Whether the last activation failed, and the next one waits for its time. */
  get waits(): boolean {
    return this.cancelRetry !== undefined;
  }

  /** Cancels the next attempt. */
  cancel(): void {
    this.cancelRetry?.();
    this.cancelRetry = undefined;
  }

  /** Activates the agent for waiting inputs, if there are any. */
  wake(): void {
    const { isLive, hasInputs } = this.slot;
    if (isLive || !hasInputs || this.activating !== undefined || this.waits) return;
    this.activate(undefined, false).catch(() => undefined); // `failed` handles it
  }

  activate(props: unknown, urgent: boolean): Promise<Live> {
    const { refusal } = this.slot;
    if (refusal !== undefined) return Promise.reject(refusal);
    return (this.activating ??= this.slot.start(props, urgent).then(
      (live) => {
        this.activating = undefined;
        if (!this.isUnstored) this.failures = 0;
        this.cancel();
        // Where the agent's first input has already evicted it.
        this.wake();
        return live;
      },
      (error: unknown) => {
        this.activating = undefined;
        // Inputs may have arrived while a call was starting the agent.
        this.failed("an agent could not be started; its inputs wait", error);
        throw error;
      },
    ));
  }

  /**
   * The agent leaves memory because something of it failed: an event or a dead letter was not
   * stored, its tables can't be read, its code has aborted it. Without a pause it would start again
   * at once, and fail again, for as long as the cause lasts.
   */
  gaveUp(error: unknown): void {
    this.isUnstored = true;
    this.failed("an agent's inputs wait, because it had to leave memory", error);
  }

  /** An event of the agent is stored. */
  stored(): void {
    if (!this.isUnstored) return;
    this.isUnstored = false;
    this.failures = 0;
  }

  private failed(message: string, error: unknown): void {
    const { log, time } = this.services;
    if (!this.slot.hasInputs || this.waits) return;
    const delayMs = Math.min(RETRY_MS_MIN * 2 ** this.failures++, RETRY_MS_MAX);
    log.warn(message, {
      ...this.slot.id,
      retryInMs: delayMs,
      error: reasonOf(error),
    });
    this.cancelRetry = time.after(delayMs, () => {
      this.cancelRetry = undefined;
      this.wake();
    });
  }
}
