/** The metrics of a host whose tests look at some of them, of agents of whatever class. */
import {
  agentMetrics,
  type AgentMetrics,
  type HostedClassMetrics,
} from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";

export function hostMetrics(looked: Partial<HostedClassMetrics>): AgentMetrics {
  const none = agentMetrics(noMetrics);
  return { ...none, ofClass: (name) => ({ ...none.ofClass(name), ...looked }) };
}
