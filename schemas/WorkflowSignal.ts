/**
 * The messages between agents and workflow instances: the body of an inbox envelope of kind
 * `workflow`, as JSON. The envelope's key is stable for one signal, so a signal is applied once
 * however often it is delivered.
 *
 * To an instance: `start`, `event`. To an agent: `callback`, `state`. Written by
 * `core/workflow/SignalLane`, read by `core/input/runWorkflowSignal`.
 */
import * as Schema from "effect/Schema";
import { CorruptFrame, decoded } from "./Frame.ts";

/** Starts an instance. `agent`: class and name of the agent that started it; absent for others. */
const Start = Schema.Struct({
  kind: Schema.Literal("start"),
  workflowName: Schema.String,
  agent: Schema.optionalKey(Schema.Tuple([Schema.String, Schema.String])),
  params: Schema.optionalKey(Schema.Unknown),
  /** Milliseconds since the epoch. */
  time: Schema.Number,
});

/** An event for `waitForEvent`. */
const Event = Schema.Struct({
  kind: Schema.Literal("event"),
  type: Schema.String,
  payload: Schema.optionalKey(Schema.Unknown),
  time: Schema.Number,
});

/** A report of an instance. `value` is the progress, the result, the error's text or the event. */
const Callback = Schema.Struct({
  kind: Schema.Literal("callback"),
  type: Schema.Literals(["progress", "complete", "error", "event"]),
  workflowName: Schema.String,
  workflowId: Schema.String,
  time: Schema.Number,
  value: Schema.optionalKey(Schema.Unknown),
});

/** A change of the agent's state by an instance. */
const State = Schema.Struct({
  kind: Schema.Literal("state"),
  change: Schema.Literals(["set", "merge", "reset"]),
  value: Schema.optionalKey(Schema.Unknown),
});

export const WorkflowSignal = Schema.Union([Start, Event, Callback, State]);
export type WorkflowSignal = typeof WorkflowSignal.Type;
export type StartSignal = typeof Start.Type;
export type CallbackSignal = typeof Callback.Type;
export type StateSignal = typeof State.Type;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const encodeSignal = (signal: WorkflowSignal): Uint8Array =>
  encoder.encode(JSON.stringify(signal));

const decode = Schema.decodeUnknownResult(WorkflowSignal);

/** Throws `CorruptFrame`. */
export function decodeSignal(bytes: Uint8Array): WorkflowSignal {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(bytes));
  } catch (error) {
    throw new CorruptFrame({ message: `not a workflow signal: ${String(error)}` });
  }
  return decoded(decode(value), "a workflow signal");
}
