/** A quarantined agent stays so on each release, and its webhooks are done once released. */
import { agentId } from "../../schemas/Address.ts";
import { checkExactlyOnce, historyOf, type Violations } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import type { Fleet, Release } from "../membership/Fleet.ts";
import { Webhooks } from "../membership/Webhooks.ts";
import { runRelease } from "./runRelease.ts";
import { ENDED_RELEASE } from "./storedModule.ts";

const POISONED = "poisoned";
/** As many inputs have to end processes. */
const ENDS = 3;

export class Quarantined {
  private readonly sent: Webhooks[] = [];
  private readonly fleet: Fleet;
  private readonly cli: Release;

  /** `cli`: the release whose commands are asked. */
  constructor(fleet: Fleet, cli: Release) {
    this.fleet = fleet;
    this.cli = cli;
  }

  /** By a host of workers, which end; the fleet has no other then. */
  async begin(): Promise<void> {
    const { fleet } = this;
    const { release } = fleet;
    fleet.release = { ...release, name: ENDED_RELEASE };
    const host = await fleet.addHost("--workers", "2");
    await host.ready();
    fleet.release = release;
    await this.send(ENDS);
    await pollUntil("it is quarantined", async () => this.isQuarantined(), { intervalMs: 1_000 });
    await fleet.stopMember(host);
  }

  /** On the present hosts. */
  async check(when: string): Promise<Violations> {
    const wrong: string[] = [];
    await this.send(1);
    if (!(await this.isQuarantined())) wrong.push(`${when}: the agent is quarantined no more`);
    const response = await fetch(`${this.fleet.url}/agents/holder/${POISONED}`);
    await response.arrayBuffer();
    if (response.status !== 503) wrong.push(`${when}: a quarantined agent answers ${response.status}`); // prettier-ignore
    return wrong;
  }

  async release(): Promise<Violations> {
    const { fleet, cli } = this;
    await runRelease(cli, fleet, "release", "Holder", POISONED);
    const id = agentId("Holder", POISONED);
    const calm = this.sent.slice(1).flatMap(({ inputs }) => inputs);
    await pollUntil("what waited is done", async () => {
      const { events } = await historyOf(fleet.inspector.journal, id);
      const done = events.flatMap(({ head }) => head.turns.flatMap((turn) => turn.done ?? []));
      const missing = calm.filter(({ key }) => !done.includes(key));
      return missing.length === 0 || { done: false, saw: missing };
    });
    const history = await historyOf(fleet.inspector.journal, id);
    // Those that ended processes may be dead by now, or done.
    const ended = this.sent[0]!.inputs.map((input) => ({ ...input, statuses: [] }));
    return checkExactlyOnce([...ended, ...calm], [history]);
  }

  private async send(count: number): Promise<void> {
    const { url } = this.fleet;
    const load = new Webhooks({ url, path: "/webhooks/holder", agents: [POISONED], perSecond: 1, count }); // prettier-ignore
    await load.allBegun();
    await load.stop();
    this.sent.push(load);
  }

  private async isQuarantined(): Promise<boolean> {
    const listed = await runRelease(this.cli, this.fleet, "list", "--quarantined", "--json");
    return listed.includes(`"${POISONED}"`);
  }
}
