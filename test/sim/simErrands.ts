/**
 * Errands of one run, drawn from its seed: who sends them, and in some runs what is asked of them
 * on the way, by the ledger that sent each: pause, resume, terminate, restart. At rest an operator
 * lets those go on that wait for somebody.
 */
import { agentId } from "../../schemas/Address.ts";
import { AgentUnreachable } from "../../core/call/AgentUnreachable.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { WorkflowBinding } from "../../core/workflow/WorkflowBinding.ts";
import type { ControlAction } from "../../core/workflow/WorkflowCalls.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { GO } from "./Errand.ts";
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { Order } from "./subjects.ts";

/** The share of runs, and of the steps of one that has any. */
const RUNS_WITH_ERRANDS = 0.4;
const ERRANDS = 0.12;
/** The shares of these runs, of one's errands just after they are sent, and of its steps. */
const RUNS_WITH_CONTROL = 0.5;
const CONTROLLED = 0.8;
const CONTROLS = 0.06;
/** As long as most errands take. */
const SOON_MS_MAX = 1_500;
const ACTIONS: Readonly<Record<ControlAction, number>> = {
  pause: 4, resume: 1, terminate: 2, restart: 3,
}; // prettier-ignore
/** From a pause to its end: some take effect, some are over before the next step. */
const RESUMED_MS_MAX = 2_000;
/** The share of pauses that end; others last until another request, or to the end. */
const RESUMED = 0.7;

/** The host that the operator asks may be killed by an input beside it, each time. */
const ASKED_MAX = 20;

type Send = (op: Order["do"], agent: string | undefined, more: Partial<Order>) => Order;

export class Errands {
  private readonly installation: Installation;
  private readonly send: Send;
  private readonly random: Random;
  private readonly rate: number;
  private readonly controlRandom: Random;
  private readonly controlRate: number;
  private readonly sent: Order[] = [];
  private readonly controlled = new Map<string, Order>();

  constructor(installation: Installation, send: Send) {
    this.installation = installation;
    this.send = send;
    this.random = new Random(installation.seed, "errands");
    this.rate = this.random.chance(RUNS_WITH_ERRANDS) ? ERRANDS : 0;
    this.controlRandom = new Random(installation.seed, "word");
    this.controlRate = this.rate > 0 && this.controlRandom.chance(RUNS_WITH_CONTROL) ? CONTROLS : 0;
  }

  /** What happens to errands in one step. */
  act(): void {
    const { controlRandom } = this;
    if (this.random.chance(this.rate)) {
      const errand = this.send("errand", undefined, this.word());
      this.sent.push(errand);
      if (this.controlRate > 0 && controlRandom.chance(CONTROLLED))
        this.later(SOON_MS_MAX, () => this.interfere(errand));
    }
    if (this.sent.length > 0 && controlRandom.chance(this.controlRate))
      this.interfere(controlRandom.pick(this.sent));
  }

  /** Every errand that was asked something is told to go on; whether any does. Never rejects. */
  async goOn(): Promise<boolean> {
    const { broker } = this.installation;
    const { time, subjects, shards } = broker;
    const wire = broker.connect("operator");
    const bus = makeMemoryBus(wire);
    const calls = new CallClient({ bus, blobs: makeMemoryBlobs(wire), time, subjects, shards });
    const errands = new WorkflowBinding("Errand", () => calls);
    const one = async ({ id }: Order): Promise<boolean> => {
      // Nobody started it, and nobody will.
      if (broker.journal.last(agentId("Errand", id)) === undefined) return false;
      const errand = errands.instance(id);
      await insist(() => errand.resume());
      await insist(() => errand.sendEvent({ type: GO, payload: GO }));
      const approval = { approved: true, metadata: GO };
      await insist(() => errand.sendEvent({ type: "approval", payload: approval }));
      return true;
    };
    let goesOn = false;
    // One that has ended can't.
    for (const errand of this.controlled.values())
      goesOn = (await one(errand).catch(() => false)) || goesOn;
    return goesOn;
  }

  private interfere(errand: Order): void {
    const action = this.controlRandom.weighted(ACTIONS);
    this.control(errand, action);
    if (action === "pause" && this.controlRandom.chance(RESUMED))
      this.later(RESUMED_MS_MAX, () => this.control(errand, "resume"));
  }

  private later(msMax: number, f: () => void): void {
    this.installation.time.after(this.controlRandom.int(1, msMax), f);
  }

  private control(errand: Order, action: ControlAction): void {
    this.controlled.set(errand.id, errand);
    const { id, agent, verdict } = errand;
    const more = { errand: id, action, ...(verdict === undefined ? {} : { verdict }) };
    this.send("control", agent, more);
  }

  private word(): Pick<Order, "verdict"> {
    if (this.controlRate === 0) return {};
    const verdict = this.controlRandom.weighted({ none: 5, approved: 3, rejected: 1 });
    return verdict === "none" ? {} : { verdict };
  }
}

/** What an operator does when nobody can tell whether it was done: it may be done twice. */
async function insist(ask: () => Promise<unknown>): Promise<void> {
  for (let asked = 1; ; asked++)
    try {
      await ask();
      return;
    } catch (error) {
      if (!(error instanceof AgentUnreachable) || asked === ASKED_MAX) throw error;
    }
}
