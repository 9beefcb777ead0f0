/**
 * `useAgentToolEvents`: follows the sub-agents that an agent uses as tools, for a page that shows
 * their work. Agents of the reference's own package send the frames; `AgentToolRuns` reads them.
 */
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import type { AgentToolRunPart, AgentToolRunState } from "./AgentToolEvent.ts";
import { AgentToolRuns, type AgentToolRunsView } from "./AgentToolRuns.ts";

/** What the hook listens to: the result of `useAgent`, or any target of a socket's messages. */
export interface AgentToolEventSource {
  /** As of `EventTarget`. */
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
  /** As of `EventTarget`. */
  removeEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

/** The runs, and functions for pages. */
export interface AgentToolEvents<
  Part extends AgentToolRunPart = AgentToolRunPart,
> extends AgentToolRunsView<Part> {
  /** The runs of one tool call, in order; empty for an unknown one. */
  readonly getRunsForToolCall: (toolCallId: string) => ReadonlyArray<AgentToolRunState<Part>>;
  /** Forgets all runs. Frames that the agent repeats are shown again. */
  readonly resetLocalState: () => void;
}

/**
 * Follows the runs of `agent`, from frames that arrive after the component was mounted and from
 * those that the agent repeats on each connection. Re-renders on each change.
 */
export function useAgentToolEvents<Part extends AgentToolRunPart = AgentToolRunPart>({
  agent,
}: {
  readonly agent: AgentToolEventSource;
}): AgentToolEvents<Part> {
  const [runs] = useState(() => new AgentToolRuns<Part>());
  useEffect(() => {
    const onMessage = ({ data }: MessageEvent): void => runs.receive(data);
    agent.addEventListener("message", onMessage);
    return () => agent.removeEventListener("message", onMessage);
  }, [agent, runs]);
  const view = useSyncExternalStore(runs.subscribe, runs.view, runs.view);
  const getRunsForToolCall = useCallback(
    (toolCallId: string) =>
      Object.hasOwn(view.runsByToolCallId, toolCallId) ? view.runsByToolCallId[toolCallId]! : [],
    [view],
  );
  const resetLocalState = useCallback(() => runs.reset(), [runs]);
  return { ...view, getRunsForToolCall, resetLocalState };
}
