/**
 * Work that one release stores and another runs: schedules, a cron, queue items, workflows that
 * sleep, and sockets whose agent has left memory.
 *
 * 1. Each thing that was stored has run once, in its order where it has one, whichever release ran
 *    it; a cron ran at each of its instants.
 * 2. Of each kind some has run on the other release than the one that stored it, both ways. On a
 *    slow machine, the last of a round waits for that.
 * 3. While hosts are replaced no socket closes, and each connection keeps what it knows.
 */
import { agentId } from "../../schemas/Address.ts";
import type { AgentClient } from "../../services/client/AgentClient.ts";
import { checkEpochs, historyOf, type Violations } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import { getState, openClient } from "../membership/Callers.ts";
import type { Fleet } from "../membership/Fleet.ts";
import { checkCron, checkCrossed, checkJobs, checkOnce } from "./rules.ts";
import type { Arming, Ran } from "./storedModule.ts";

interface KeeperStub {
  arm(round: string, arming: Arming): void;
  rest(): void;
  remember(mark: string): void;
  recall(): { readonly mark: string } | undefined;
}

const NAMES = Array.from({ length: 6 }, (_, n) => `keeper-${n}`);
/** About as long as replacing two hosts takes; each kind of work continues meanwhile. */
const ARMING: Arming = { schedules: 24, seconds: 120, jobs: 40, jobMs: 2_000 };
/** The wait for what is armed, on a machine that is late. */
const RUN_TIMEOUT_MS = 300_000;

export class Keepers {
  private readonly url: string;
  private readonly clients = new Map<string, AgentClient<KeeperStub>>();
  /** The clients of keepers that store nothing, and so leave memory between two calls. */
  private readonly idle = new Map<string, AgentClient<KeeperStub>>();
  private readonly rounds: string[] = [];
  private closed = 0;

  constructor(url: string) {
    this.url = url;
    for (const name of NAMES) {
      this.clients.set(name, openClient<KeeperStub>(url, name, "keeper"));
      const idle = openClient<KeeperStub>(url, `idle-${name}`, "keeper");
      idle.addEventListener("close", () => this.closed++);
      this.idle.set(name, idle);
    }
  }

  /** Stores a round of everything, on whichever release hosts the keepers. */
  async arm(round: string): Promise<void> {
    this.rounds.push(round);
    for (const [name, { call }] of this.clients) await call("arm", [`${name} ${round}`, ARMING]);
  }

  /** Rule 3, of `act`, which replaces hosts. */
  async keepSockets(act: () => Promise<void>): Promise<Violations> {
    for (const [name, { call }] of this.idle) await call("remember", [name]);
    const before = this.closed;
    await act();
    const wrong = this.closed === before ? [] : [`${this.closed - before} sockets of idle keepers were closed`]; // prettier-ignore
    for (const [name, { call }] of this.idle) {
      const state = await call("recall");
      if (state?.mark !== name)
        wrong.push(`a connection of idle-${name} knows ${JSON.stringify(state)} and not its name`);
    }
    return wrong;
  }

  /** Rules 1 and 2, once all has run; the cron stops. */
  async check({ inspector }: Fleet): Promise<Violations> {
    const wrong: string[] = [];
    const all: Ran[] = [];
    for (const [name, { call }] of this.clients) {
      await pollUntil(
        `all that ${name} has stored has run`,
        async () => {
          const ids = new Set((await this.ran(name)).map(({ what, id }) => `${what} ${id}`));
          const missing = this.stored(name).filter((id) => !ids.has(id));
          return missing.length === 0 || { done: false, saw: missing };
        },
        { timeoutMs: RUN_TIMEOUT_MS, intervalMs: 1_000 },
      );
      await call("rest");
      const ran = await this.ran(name);
      const history = await historyOf(inspector.journal, agentId("Keeper", name));
      wrong.push(...checkOnce(name, this.stored(name), ran), ...checkJobs(name, ARMING.jobs, ran));
      wrong.push(...checkCron(history, ran), ...checkEpochs(history));
      all.push(...ran);
    }
    return [...wrong, ...checkCrossed(all)];
  }

  close(): void {
    for (const client of [...this.clients.values(), ...this.idle.values()]) client.close();
  }

  private ran(name: string): Promise<ReadonlyArray<Ran>> {
    return getState<ReadonlyArray<Ran>>(this.url, name, "keeper");
  }

  /** What one has stored and is to run once: kind and id. */
  private stored(name: string): string[] {
    const numbers = (count: number) => Array.from({ length: count }, (_, n) => n + 1);
    return this.rounds.flatMap((round) => [
      ...numbers(ARMING.schedules).map((n) => `schedule ${name} ${round} ${n}`),
      ...numbers(ARMING.jobs).map((n) => `job ${name} ${round} ${n}`),
      `workflow ${name} ${round}`,
    ]);
  }
}
