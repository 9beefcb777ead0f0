/**
 * The runs of sub-agents that one agent uses as tools, from its `agent-tool-event` frames.
 * Independent of React: `useAgentToolEvents` passes it the frames and renders its view.
 *
 * 1. A repeated frame is ignored, since each connection receives earlier frames again.
 * 2. A run that has ended does not start again.
 * 3. A frame that is malformed, or belongs to a run whose start is unknown, changes nothing.
 */
import type {
  AgentToolEvent,
  AgentToolEventMessage,
  AgentToolMilestone,
  AgentToolProgressSnapshot,
  AgentToolRunPart,
  AgentToolRunState,
} from "./AgentToolEvent.ts";
import { partsAfter, type Typed } from "./messageParts.ts";

/** Types of chunks that describe the run instead of being parts of its message. */
const PROGRESS = "data-agent-progress";
const MILESTONE = "data-agent-milestone";

/** The runs, grouped as pages need them. */
export interface AgentToolRunsView<Part extends AgentToolRunPart = AgentToolRunPart> {
  readonly runsById: Readonly<Record<string, AgentToolRunState<Part>>>;
  readonly runsByToolCallId: Readonly<Record<string, ReadonlyArray<AgentToolRunState<Part>>>>;
  /** Runs that no tool call started. */
  readonly unboundRuns: ReadonlyArray<AgentToolRunState<Part>>;
}

type Run = AgentToolRunState<Typed>;

/** The runs of one component's agent. */
export class AgentToolRuns<Part extends AgentToolRunPart> {
  readonly #listeners = new Set<() => void>();
  readonly #seen = new Set<string>();
  readonly #runs = new Map<string, Run>();
  #view = viewOf<Part>([]);

  /** Calls `listener` after each change. Returns a function that unsubscribes it. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  /** A new object after each change. */
  readonly view = (): AgentToolRunsView<Part> => this.#view;

  /** Receives the data of any message of the agent's socket. */
  receive(data: unknown): void {
    const message = messageOf(data);
    if (message === undefined) return;
    const { event, parentToolCallId, sequence } = message;
    const key = JSON.stringify([event.runId, parentToolCallId, sequence]);
    if (this.#seen.has(key)) return; // rule 1
    this.#seen.add(key);
    const before = this.#runs.get(event.runId);
    const run = runAfter(before, event, parentToolCallId);
    if (run === undefined || run === before) return;
    this.#runs.set(event.runId, run);
    this.#changed();
  }

  /** Forgets the runs and the received frames. */
  reset(): void {
    this.#seen.clear();
    this.#runs.clear();
    this.#changed();
  }

  #changed(): void {
    this.#view = viewOf<Part>([...this.#runs.values()]);
    for (const listener of this.#listeners) listener();
  }
}

function viewOf<Part extends AgentToolRunPart>(runs: ReadonlyArray<Run>): AgentToolRunsView<Part> {
  // The parts are as the server sent them; the page declares their types.
  const typed = runs as ReadonlyArray<unknown> as ReadonlyArray<AgentToolRunState<Part>>;
  const inOrder = typed.toSorted((a, b) => a.order - b.order || a.runId.localeCompare(b.runId));
  const byToolCall = new Map<string, Array<AgentToolRunState<Part>>>();
  for (const run of inOrder) {
    if (!run.parentToolCallId) continue;
    byToolCall.set(run.parentToolCallId, [...(byToolCall.get(run.parentToolCallId) ?? []), run]);
  }
  return {
    runsById: Object.fromEntries(typed.map((run) => [run.runId, run])),
    runsByToolCallId: Object.fromEntries(byToolCall),
    unboundRuns: inOrder.filter(({ parentToolCallId }) => !parentToolCallId),
  };
}

/** Undefined for anything else (rule 3). */
function messageOf(data: unknown): AgentToolEventMessage | undefined {
  if (typeof data !== "string" || !data.includes("agent-tool-event")) return undefined;
  const message = parsed(data) as Partial<AgentToolEventMessage> | undefined;
  if (message?.type !== "agent-tool-event" || typeof message.event?.runId !== "string")
    return undefined;
  return message as AgentToolEventMessage;
}

/** The run after an event; undefined for a run whose start is unknown. */
function runAfter(
  run: Run | undefined,
  event: AgentToolEvent,
  parentToolCallId: string | undefined,
): Run | undefined {
  if (event.kind === "started") {
    if (run !== undefined && run.status !== "running") return run; // rule 2
    const { runId, agentType, inputPreview, order, display } = event;
    const subAgent = { agent: agentType, name: runId };
    return { parts: [], ...run, runId, agentType, parentToolCallId, inputPreview, order, display, status: "running", subAgent }; // prettier-ignore
  }
  if (run === undefined) return undefined;
  switch (event.kind) {
    case "chunk":
      return afterChunk(run, event.body);
    case "finished":
      return { ...run, status: "completed", summary: event.summary, error: undefined };
    case "error":
      return { ...run, status: "error", error: event.error };
    case "aborted":
      return { ...run, status: "aborted", error: event.reason };
    case "interrupted": {
      const { error, reason, childStillRunning } = event;
      return { ...run, status: "interrupted", error, reason, childStillRunning };
    }
    default:
      return run;
  }
}

function afterChunk(run: Run, body: string): Run {
  const chunk = parsed(body) as Typed | undefined;
  if (typeof chunk?.type !== "string") return run;
  const next = { ...run, parts: partsAfter(run.parts, chunk) };
  const data = (chunk["data"] ?? {}) as Readonly<Record<string, unknown>>;
  if (chunk.type === PROGRESS)
    return { ...next, progress: { ...reported(data), ...dataOf(data), at: Date.now() } };
  if (chunk.type !== MILESTONE || typeof data["name"] !== "string") return next;
  const milestone: AgentToolMilestone = {
    name: data["name"],
    sequence: typeof data["sequence"] === "number" ? data["sequence"] : 0,
    at: typeof data["at"] === "number" ? data["at"] : Date.now(),
    ...dataOf(data),
  };
  const reached = run.milestones ?? [];
  if (reached.some(({ sequence }) => sequence === milestone.sequence)) return next;
  const milestones = [...reached, milestone].toSorted((a, b) => a.sequence - b.sequence);
  // A late replay of a milestone does not replace newer progress.
  if (run.progress !== undefined && milestone.at < run.progress.at) return { ...next, milestones };
  const progress = { ...reported(data), milestone: milestone.name, at: milestone.at };
  return { ...next, milestones, progress };
}

/** The fields of a report that have the right types. */
function reported(
  data: Readonly<Record<string, unknown>>,
): Pick<AgentToolProgressSnapshot, "fraction" | "message" | "phase"> {
  const { fraction, message, phase } = data;
  return {
    ...(typeof fraction === "number" ? { fraction } : {}),
    ...(typeof message === "string" ? { message } : {}),
    ...(typeof phase === "string" ? { phase } : {}),
  };
}

const dataOf = ({ data }: Readonly<Record<string, unknown>>): { readonly data?: unknown } =>
  data === undefined ? {} : { data };

/** Undefined if the text is not a JSON object. */
function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
