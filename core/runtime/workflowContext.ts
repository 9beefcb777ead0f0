/**
 * What a workflow's object uses while `run` executes: its agent, messages to that agent that are
 * not stored, and its approvals. `WorkflowRun` makes one for each `Execution`.
 */
import { agentId } from "../../schemas/Address.ts";
import type { Agent } from "../agent/Agent.ts";
import type { AgentRuntime } from "../agent/AgentRuntime.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import type { WorkflowContext } from "../workflow/AgentWorkflow.ts";
import type { Execution } from "../workflow/Execution.ts";
import type { RunRecord } from "../workflow/RunTable.ts";
import type { Steps } from "../workflow/Steps.ts";

interface WorkflowContextParts {
  /** The instance's id. */
  readonly name: string;
  readonly run: RunRecord;
  readonly execution: Execution;
  readonly steps: Steps;
  readonly runtime: AgentRuntime;
  /** A stub of the agent that started the instance. Throws if no agent did. */
  readonly agent: () => AgentStub<Agent>;
}

export function workflowContext(parts: WorkflowContextParts): WorkflowContext {
  const { name, run, execution, steps, runtime, agent } = parts;
  const isQuiet = (): boolean => execution.replaying || execution.isAbandoned;
  return {
    workflowId: name,
    workflowName: run.workflowName,
    agent,
    reportProgress: async (progress) => {
      if (isQuiet() || run.agent === undefined) return;
      await runtime.signals.sendNow(agentId(...run.agent), {
        kind: "callback",
        type: "progress",
        workflowName: run.workflowName,
        workflowId: name,
        time: runtime.time.nowMs(),
        value: progress,
      });
    },
    broadcast: (message) => {
      if (isQuiet() || run.agent === undefined) return;
      agent()
        .broadcast(message)
        .catch((error: unknown) =>
          runtime.log.warn("a workflow's broadcast was lost", { error: String(error) }),
        );
    },
    approval: (approval, question) => steps.approval(approval, question),
    approvalLink: async (which, options) => runtime.apis.approvals.link(which, options),
    waitForAnswer: (step, options) => steps.waitForAnswer(step, options),
    waitUntil: (promise) => runtime.waitUntil(promise),
    passThroughOnException: () => undefined,
  };
}
