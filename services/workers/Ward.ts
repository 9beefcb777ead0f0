/**
 * What the control process knows of an agent that runs alone: its owner, its process, and the
 * requests that wait for an answer. `IsolationWard` changes it, and has the rules.
 */
import type { AgentKey, IsolatedOwner, IsolatedReply } from "../../core/input/Isolation.ts";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { Ending } from "../watchdog/reports.ts";
import type { IsolateRequest } from "./messages.ts";
import type { WorkerProcess } from "./WorkerProcess.ts";

interface Asked {
  readonly request: IsolateRequest;
  readonly answer: (reply: IsolatedReply) => void;
}

export interface Ward {
  readonly agent: AgentKey;
  owner: number;
  /** The latest that asked. */
  by: IsolatedOwner | undefined;
  ends: number;
  /** Rule 3. `harmedMs`: when it was isolated, or last ended or held a process. */
  readonly cleanMs: number;
  harmedMs: number;
  process: WorkerProcess | undefined;
  /** Requests are passed as they arrive. */
  serves: boolean;
  /** Rule 5: since when it serves, or was last found busy. */
  servesSinceMs: number;
  /** Rule 5: the number of the request by which its process is taken. */
  yields: number | undefined;
  /** The next process receives them first. */
  readonly sockets: Map<string, SocketInfo>;
  /** Why the process is about to end, as its watchdog reported it. */
  ending: Ending | undefined;
  startsAtMs: number;
  /** Unanswered requests, by number: passed to the process when it serves. */
  readonly asked: Map<number, Asked>;
  returning: boolean;
}

/** `ends`: of processes, so far. */
export const newWard = (
  agent: AgentKey,
  { nowMs, ...given }: Pick<Ward, "owner" | "ends" | "cleanMs"> & { readonly nowMs: number },
): Ward => ({
  ...given,
  agent,
  by: undefined,
  harmedMs: nowMs,
  process: undefined,
  serves: false,
  servesSinceMs: nowMs,
  yields: undefined,
  sockets: new Map(),
  ending: undefined,
  startsAtMs: nowMs,
  asked: new Map(),
  returning: false,
});
