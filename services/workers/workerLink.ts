/**
 * A worker's end of the channel to its control process: receives what to begin with, reports where
 * the worker serves, and receives the request to stop.
 */
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { LeaseChange } from "../../core/lease/Leases.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { Isolation, OnAsk } from "../../core/input/Isolation.ts";
import type { RecordedSteps } from "../../core/step/RecordedSteps.ts";
import { ChannelIsolation } from "./ChannelIsolation.ts";
import type { LeaseChannel } from "./channelLeases.ts";
import type {
  IsolateRequest,
  Begin,
  FromWorker,
  GivenBroker,
  LeaseAnswer,
  Serving,
  ToWorker,
} from "./messages.ts";
import { Recordings } from "./Recordings.ts";

export interface WorkerLink {
  /** Never resolves if the control process ends before. */
  readonly begin: Promise<Begin>;
  /** Only for `dev`, whose broker the control process runs. Rejects at an earlier stop. */
  readonly broker: Promise<GivenBroker>;
  readonly serves: (serving: Serving) => void;
  /** For `dev --from`. */
  readonly recordings: RecordedSteps;
  readonly leases: LeaseChannel;
  readonly isolation: Isolation;
  /** For the process of an isolated agent. */
  readonly onIsolated: OnAsk;
  /** Resolves when a stop is requested, or the control process has ended in any way. */
  readonly stopped: Promise<string>;
}

/** Returns undefined where this process was not started as a worker. */
export function workerLink(): WorkerLink | undefined {
  if (process.send === undefined) return undefined;
  // A control process that has ended meanwhile is reported by `stopped` only.
  const send = (message: FromWorker): void => {
    listen();
    process.send?.(message, undefined, {}, () => undefined);
  };
  let onAnswer = (_answer: LeaseAnswer): void => undefined;
  let onChange = (_change: LeaseChange): void => undefined;
  let onBegin = (_begin: Begin): void => undefined;
  let onBroker = (_broker: GivenBroker): void => undefined;
  let onIsolate = (_request: IsolateRequest): void => undefined;
  let onStop = (_why: string): void => undefined;
  const begin = new Promise<Begin>((resolve) => (onBegin = resolve));
  const isolation = new ChannelIsolation(send);
  const recordings = new Recordings();
  const stopped = new Promise<string>((resolve) => (onStop = resolve));
  const broker = new Promise<GivenBroker>((resolve, reject) => {
    onBroker = resolve;
    void stopped.then(() => reject(new BrokerUnavailable({ message: "a stop was requested" })));
  });
  // The awaiting code receives the rejection.
  broker.catch(() => undefined);
  const receive = (message: unknown): void => {
    const told = message as ToWorker;
    if ("begin" in told) {
      isolation.begin(told.begin);
      onBegin(told.begin);
      // From here on the channel does not keep the process alive: a worker that can't start ends.
      process.channel?.unref();
    } else if ("broker" in told) onBroker(told.broker);
    else if ("recording" in told) recordings.add(told.recording);
    else if ("leaseAnswers" in told) told.leaseAnswers.forEach(onAnswer);
    else if ("leaseChange" in told) onChange(told.leaseChange);
    else if ("isolate" in told) onIsolate(told.isolate);
    else if ("isolateAnswer" in told) isolation.answered(told.isolateAnswer);
    else if ("isolates" in told) isolation.isolates(told.isolates);
    else if ("returns" in told) isolation.returned(told.returns);
    else if ("stop" in told) onStop("the control process's request");
  };
  let close!: () => void;
  const closed = new Promise<void>((resolve) => (close = resolve));
  if (!process.connected) close();
  /** Again before each message: a module may call `process.removeAllListeners()`. */
  function listen(): void {
    if (process.listeners("message").includes(receive)) return;
    process.on("message", receive);
    process.once("disconnect", close);
  }
  listen();
  void closed.then(() => isolation.closed());
  void closed.then(() => onStop("the end of the control process"));
  return {
    begin,
    broker,
    serves: (serving) => send({ serves: serving }),
    recordings,
    leases: {
      send,
      onAnswer: (f) => void (onAnswer = f),
      onChange: (f) => void (onChange = f),
      closed,
    },
    isolation,
    onIsolated: (f) => {
      onIsolate = ({ n, agent, owner, ask }) =>
        f(agent as AgentId, owner, ask, (reply) => send({ isolateAnswer: { n, reply } }));
    },
    stopped,
  };
}
