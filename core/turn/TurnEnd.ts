/**
 * How one run of a durable input or a job ended, for the request log and the delivery log. The
 * mailbox and `runJob` report it when the event that says so is stored; `services/host/reportTurn`
 * passes it on.
 */
export interface TurnEnd {
  /** `failed`: another run follows. `dead`: none does, and the input is a dead letter. */
  readonly status: "done" | "failed" | "dead";
  /** Journal sequence of the event that records the end. */
  readonly seq: number;
  /** Status of the agent's answer; absent for a job. */
  readonly http?: number | undefined;
  readonly error?: string | undefined;
  readonly attempts?: number | undefined;
  /** Milliseconds until the next run. */
  readonly nextInMs?: number | undefined;
}
