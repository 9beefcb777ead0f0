/**
 * Outgoing signals between agents and workflow instances: a lane like that of the queue, and
 * independent of it (as `MailLane`). A signal is requested in a turn, stored with that turn's
 * commit, and then put into the inbox of its target under a fixed key: never lost, applied once.
 *
 * Signals have a lane because a message sent with the commit would leave before the event is
 * stored, and an instance must not start for a turn that never happened.
 */
import { agentId, type AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { encodeSignal, type WorkflowSignal } from "../../schemas/WorkflowSignal.ts";
import { storeInput } from "../inbox/storeInput.ts";
import { WorkflowBinding } from "./WorkflowBinding.ts";
import { SIGNAL_KEYS } from "../journal/laneKeys.ts";
import { QueueLane, type JobPorts, type QueueAgent } from "../queue/QueueLane.ts";

/** Unlimited: a signal fails only while the broker is unavailable, and there is no other sender. */
const SIGNAL_RETRY = { maxAttempts: 1_000_000, baseDelayMs: 100, maxDelayMs: 5_000 } as const;

interface SentSignal {
  readonly to: readonly [className: string, name: string];
  readonly key: string;
  readonly signal: WorkflowSignal;
}

export interface SignalLaneParts {
  readonly jobs: JobPorts;
  /** The bindings of the agent's module: `binding` looks workflows up in it. */
  readonly env: unknown;
}

/** Signals that wait to be sent to workflows. */
export const SIGNALS_TABLE = "svc_agents_signals";

export class SignalLane extends QueueLane {
  readonly #agent: QueueAgent;
  readonly #parts: SignalLaneParts;

  constructor(agent: QueueAgent, parts: SignalLaneParts) {
    super(agent, parts.jobs, {
      table: SIGNALS_TABLE,
      keys: SIGNAL_KEYS,
      payload: "a workflow: the signal",
      events: undefined,
      callback: () => (sent) => this.#publish(sent as SentSignal),
      mayRetry: () => true,
      ceiling: undefined,
    });
    this.#agent = agent;
    this.#parts = parts;
  }

  /** The binding that a workflow class has in `env`, by either of its names. */
  binding(name: string): WorkflowBinding | undefined {
    const found = (this.#parts.env as Readonly<Record<string, unknown>> | undefined)?.[name];
    return found instanceof WorkflowBinding ? found : undefined;
  }

  /**
   * Durable with the running turn. `key` is the target's dedup key: a repetition is applied once.
   * Throws `TypeError` for what is not JSON.
   */
  send(to: AgentId, key: string, signal: WorkflowSignal): void {
    const sent: SentSignal = { to: [to.class, to.name], key, signal };
    this.push("signal", sent, { id: `${to.class}/${to.name}/${key}`, retry: SIGNAL_RETRY });
  }

  /**
   * Sends it at once without storing it, for signals that may be lost when this host dies.
   * Rejects with `BrokerUnavailable`.
   */
  async sendNow(to: AgentId, signal: WorkflowSignal): Promise<void> {
    const key = `workflow:${this.#agent.time.id()}`;
    await this.#publish({ to: [to.class, to.name], key, signal });
  }

  async #publish({ to, key, signal }: SentSignal): Promise<void> {
    const { inbox, signal: stopped } = this.#parts.jobs;
    const head = {
      key,
      kind: "workflow",
      type: signal.kind,
      time: this.#agent.time.nowMs(),
    } as const;
    const data = encodeEnvelope(head, encodeSignal(signal));
    await storeInput(inbox, agentId(...to), data, stopped);
  }
}
