/**
 * Connects the ward of isolated agents with the channels of workers and of the agents' processes.
 * `serveWorkers` owns it.
 */
import type { AgentKey } from "../../core/input/Isolation.ts";
import type { Ending } from "../watchdog/reports.ts";
import { IsolationWard, type IsolationWardOptions } from "./IsolationWard.ts";
import { readIsolation } from "./messages.ts";
import type { WorkerProcess } from "./WorkerProcess.ts";

interface ServedIsolation {
  readonly ward: IsolationWard;
  /** Serves a worker until it ends. Returns the agents that run alone. */
  readonly serve: (worker: number, process: WorkerProcess) => ReadonlyArray<AgentKey>;
}

/** `endingOf`: why a process is about to end, as its watchdog has reported it. */
export function serveIsolation(
  options: IsolationWardOptions,
  endingOf: (process: WorkerProcess) => Ending | undefined,
): ServedIsolation {
  const ward = new IsolationWard({
    ...options,
    start: (owner) => {
      const process = options.start(owner);
      process.onMessage((message) => {
        const told = readIsolation(message);
        if (told !== undefined && "isolateAnswer" in told)
          ward.answered(told.isolateAnswer.n, told.isolateAnswer.reply);
      });
      return process;
    },
  });
  return {
    ward,
    serve: (worker, process) => {
      process.onMessage((message) => {
        const told = readIsolation(message);
        if (told === undefined) return;
        if ("isolate" in told) {
          const { n } = told.isolate;
          ward.ask(worker, told.isolate, (reply) => process.send({ isolateAnswer: { n, reply } }));
        } else if ("left" in told) ward.left(worker, told.left);
        else if ("lost" in told) ward.lost(worker, told.lost);
        else if ("newCode" in told) ward.returnAll(worker);
      });
      process.onReport((report) => {
        if ("stall" in report) ward.held(worker, report.stall);
      });
      void process.ended.then(() => ward.ended(worker, endingOf(process)));
      return ward.join(worker, {
        isolates: (agent) => process.send({ isolates: agent }),
        returns: (agent) => process.send({ returns: agent }),
      });
    },
  };
}
