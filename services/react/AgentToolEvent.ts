/**
 * The `agent-tool-event` frames by which an agent of the reference's package reports the runs of
 * sub-agents that it uses as tools, and the run states that `useAgentToolEvents` derives from them.
 * Types only.
 */

/** Why a run was given up, in the terms of the reference's package. */
export type AgentToolInterruptedReason =
  | "no-progress"
  | "window-exceeded"
  | "not-tailable"
  | "inspect-timeout"
  | "inspect-failed"
  | "recovery-deadline"
  | "budget-exceeded";

/** How to show a run's tool. */
export type AgentToolDisplayMetadata = {
  readonly name?: string;
  readonly icon?: string;
} & Readonly<Record<string, unknown>>;

/** What happened to one run. */
export type AgentToolEvent =
  | {
      readonly kind: "started";
      readonly runId: string;
      readonly agentType: string;
      readonly inputPreview?: unknown;
      readonly order: number;
      readonly display?: AgentToolDisplayMetadata;
    }
  /** `body`: one chunk of the AI SDK's stream of user-interface messages, as JSON. */
  | { readonly kind: "chunk"; readonly runId: string; readonly body: string }
  | { readonly kind: "finished"; readonly runId: string; readonly summary: string }
  | { readonly kind: "error"; readonly runId: string; readonly error: string }
  | { readonly kind: "aborted"; readonly runId: string; readonly reason?: string }
  | {
      readonly kind: "interrupted";
      readonly runId: string;
      readonly error: string;
      readonly reason?: AgentToolInterruptedReason;
      readonly childStillRunning?: boolean;
    };

/** One frame. A repeated frame has the same run, tool call and sequence. */
export interface AgentToolEventMessage {
  readonly type: "agent-tool-event";
  readonly parentToolCallId?: string;
  readonly sequence: number;
  /** Set in frames about events from before the connection. */
  readonly replay?: true;
  readonly event: AgentToolEvent;
}

/** One part of a message. The AI SDK has its exact types: `UIMessage["parts"][number]`. */
export interface AgentToolRunPart {
  readonly type: string;
}

/** The last progress report of a run. */
export interface AgentToolProgressSnapshot {
  /** 0 to 1. */
  readonly fraction?: number;
  readonly message?: string;
  readonly phase?: string;
  /** Set if the report was a milestone. */
  readonly milestone?: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly data?: unknown;
}

/** A milestone that a run has reached. */
export interface AgentToolMilestone {
  readonly name: string;
  /** Grows within a run. */
  readonly sequence: number;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly data?: unknown;
}

/** One run of a sub-agent as a tool. */
export interface AgentToolRunState<Part extends AgentToolRunPart = AgentToolRunPart> {
  readonly runId: string;
  /** Class of the sub-agent. */
  readonly agentType: string;
  /** The tool call that started it; absent for a run that code started. */
  readonly parentToolCallId?: string | undefined;
  readonly inputPreview?: unknown;
  /** Its place among the runs of its tool call. */
  readonly order: number;
  readonly display?: AgentToolDisplayMetadata | undefined;
  readonly status: "running" | "completed" | "error" | "aborted" | "interrupted";
  /** The parts of its message so far. */
  readonly parts: ReadonlyArray<Part>;
  /** The summary of a completed run. */
  readonly summary?: string;
  /** Why a run did not complete. */
  readonly error?: string | undefined;
  /** Why a run was interrupted, in a word. */
  readonly reason?: AgentToolInterruptedReason | undefined;
  /** Whether the sub-agent of an interrupted run was still working when its parent gave it up. */
  readonly childStillRunning?: boolean | undefined;
  readonly progress?: AgentToolProgressSnapshot;
  /** In the order of their sequence. */
  readonly milestones?: ReadonlyArray<AgentToolMilestone>;
  /** The sub-agent, for the `sub` option of `useAgent`. */
  readonly subAgent: { readonly agent: string; readonly name: string };
}
