/**
 * Turns with steps in one run, drawn from its seed: in some runs, orders for agents that call the
 * world, and in some, for agents that spend and compensate. Some of the former come as durable
 * calls, of callers who ask until they are answered.
 */
import { AgentUnreachable } from "../../core/call/AgentUnreachable.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { agentId } from "../../schemas/Address.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { Order } from "./subjects.ts";

/** The share of runs, and of the steps of one that has any. */
const RUNS_WITH_CALLS = 0.4;
const CALLS = 0.3;
const CALLERS = ["p", "q"] as const;
const MS_MAX = 1_000;
const STEPS_MAX = 5;
/** The shares of orders that come as durable calls, and that another caller asks for later, too. */
const DURABLE = 0.4;
const ASKED_TWICE = 0.5;
const TWICE_MS_MAX = 2_000;
/** The limits of one try, and of tries: a caller is answered long before. */
const ASK_MS = 3_000;
const ASKS_MAX = 40;
/** The same of payments; their steps are few, since each may be undone as well. */
const RUNS_WITH_PAYMENTS = 0.25;
const PAYMENTS = 0.15;
const PAYERS = ["r", "s"] as const;
const BUYS_MAX = 3;
/** Several at once interleave. */
const TOGETHER_MAX = 3;

export class Calls {
  private readonly installation: Installation;
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly rate: number;
  private readonly durable: Random;
  private client: CallClient | undefined;
  private asking = 0;
  private readonly payments: Random;
  private readonly paymentRate: number;
  private orders = 0;

  constructor(installation: Installation, send: Calls["send"]) {
    const { seed } = installation;
    this.installation = installation;
    this.send = send;
    this.durable = new Random(seed, "durable calls");
    this.random = new Random(seed, "calls");
    this.rate = this.random.chance(RUNS_WITH_CALLS) ? CALLS : 0;
    this.payments = new Random(seed, "payments");
    this.paymentRate = this.payments.chance(RUNS_WITH_PAYMENTS) ? PAYMENTS : 0;
  }

  /** What happens to callers and payers in one step. */
  act(): void {
    this.pay();
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const agent = random.pick(CALLERS);
    for (let n = random.int(1, TOGETHER_MAX); n > 0; n--) {
      const id = `call-${++this.orders}`;
      const fails = random.int(0, STEPS_MAX);
      const order: Order = { id, agent, do: "call", ms: random.int(1, MS_MAX), fails };
      if (this.durable.chance(DURABLE)) this.call(order);
      else this.send("Caller", order);
    }
  }

  /** Every caller was answered, or asks no more. */
  get isAnswered(): boolean {
    return this.asking === 0;
  }

  private call(order: Order): void {
    this.ask(order);
    if (this.durable.chance(ASKED_TWICE))
      this.installation.time.after(this.durable.int(1, TWICE_MS_MAX), () => this.ask(order));
  }

  private ask(order: Order): void {
    this.asking++;
    void this.answered(order).finally(() => this.asking--);
  }

  private async answered(order: Order): Promise<void> {
    const { broker, observed, weather } = this.installation;
    const { time, subjects, shards } = broker;
    if (this.client === undefined) {
      const wire = broker.connect("customer");
      const bus = makeMemoryBus(wire);
      this.client = new CallClient({ bus, blobs: makeMemoryBlobs(wire), time, subjects, shards });
    }
    const to = agentId("Caller", order.agent);
    const call = { kind: "durable", key: order.id, method: "called", args: [order] } as const;
    for (let asked = 1; asked <= ASKS_MAX; asked++)
      try {
        const { reply } = await this.client.call(to, call, {
          deadlineMs: ASK_MS,
          repeatable: true,
        });
        const told = reply.kind === "error" ? `${reply.name}: ${reply.message}` : reply.kind;
        weather.trace.add(`customer ${order.id} hears ${told}`);
        observed.told.push({ call: order.id, what: told });
        return;
      } catch (error) {
        if (!(error instanceof AgentUnreachable)) throw error;
      }
  }

  private pay(): void {
    const { payments } = this;
    if (!payments.chance(this.paymentRate)) return;
    const agent = payments.pick(PAYERS);
    for (let n = payments.int(1, TOGETHER_MAX); n > 0; n--) {
      const id = `pay-${++this.orders}`;
      const [ms, fails] = [payments.int(1, MS_MAX), payments.int(0, BUYS_MAX)];
      this.send("Payer", { id, agent, do: "pay", ms, fails });
    }
  }
}
