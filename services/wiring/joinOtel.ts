/**
 * Joins a serving process with tracing, where the environment asks for it (`services/otel`): its
 * ports are replaced by traced ones. Otherwise they stay as they are, and nothing of OpenTelemetry
 * is loaded but its API.
 */
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Databases } from "../../core/database/Databases.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { Outgoing } from "../../core/outgoing/Outgoing.ts";
import { Tracing } from "../../core/telemetry/Tracing.ts";
import { Ambient } from "../../core/turn/Ambient.ts";
import { startOtel, type StartedOtel } from "../otel/startOtel.ts";
import { tracedCalls } from "../otel/tracedCalls.ts";
import { TracedPorts } from "../otel/TracedPorts.ts";
import type { ProcessSettings } from "./ProcessSettings.ts";

type Calls = Pick<CallClient, "call">;
/** Calls of agent code. */
export type TraceCalls = (calls: Calls) => Calls;
type Ports = Ambient | Databases | Inbox | Journal | Outgoing;

/**
 * Loads the SDK if the environment asks for it. That takes seconds on a busy machine, so it is done
 * before the watchdog starts. The last spans are sent when the scope closes.
 */
export const startTracing = ({ role, log }: Pick<ProcessSettings, "role" | "log">) =>
  Effect.acquireRelease(
    Effect.promise(() => startOtel(process.env, role, log)),
    (otel) => Effect.promise(async () => otel?.stop()),
  );

/** The context to run the process in, and the function that wraps the calls of its stubs. */
export function traceProcess<R>(
  context: Context.Context<R | Ports>,
  started: StartedOtel | undefined,
): { readonly context: Context.Context<R | Ports>; readonly calls: TraceCalls } {
  if (started === undefined) return { context, calls: (calls) => calls };
  const { tracing } = started;
  const traced = new TracedPorts(tracing, Context.get(context, Ambient));
  // Before the fetch of agent code is gated (`installGatedFetch`).
  globalThis.fetch = traced.fetch(globalThis.fetch);
  return {
    context: context.pipe(
      Context.add(Tracing, tracing),
      Context.add(Ambient, traced.ambient),
      Context.add(Journal, traced.journal(Context.get(context, Journal))),
      Context.add(Databases, traced.databases(Context.get(context, Databases))),
      Context.add(Inbox, traced.inbox(Context.get(context, Inbox))),
      Context.add(Outgoing, traced.outgoing(Context.get(context, Outgoing))),
    ) as Context.Context<R | Ports>,
    calls: (calls) => tracedCalls(calls, traced),
  };
}
