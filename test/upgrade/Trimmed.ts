/** Both releases trim and archive one agent, and both read all that it has ever done. */
import type { AgentClient } from "../../services/client/AgentClient.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import type { Violations } from "../kit/checkers.ts";
import { pollUntil } from "../kit/poll.ts";
import { getState, openClient } from "../membership/Callers.ts";
import type { Fleet, Release } from "../membership/Fleet.ts";
import { checkNotes } from "./rules.ts";
import { runRelease } from "./runRelease.ts";

interface DiaryStub {
  write(): void;
}
const DIARY = "diary";
/** More than its class keeps; only what is a minute old is trimmed. */
const NOTES = 30;
/** A minute until events may go, one between two walks, and more on a machine that is late. */
const TRIM_TIMEOUT_MS = 300_000;

export class Trimmed {
  private readonly fleet: Fleet;
  private readonly client: AgentClient<DiaryStub>;
  private retention: AgentsProcess | undefined;

  constructor(fleet: Fleet) {
    this.fleet = fleet;
    this.client = openClient<DiaryStub>(fleet.url, DIARY, "diary");
  }

  /** Writes, and begins to trim by the fleet's present release. */
  async begin(): Promise<void> {
    for (let n = 0; n < NOTES; n++) await this.client.call("write");
    this.retention = await this.fleet.addRetention();
  }

  /** Resolves when it has trimmed something; stops it. */
  async end(): Promise<void> {
    const { retention } = this;
    if (retention === undefined) return;
    const metric = "agents_history_trimmed_events_total";
    await pollUntil(
      "events are trimmed",
      async () => (await retention.metric(metric)) > 0 || { done: false, saw: retention.told() },
      { timeoutMs: TRIM_TIMEOUT_MS, intervalMs: 1_000 },
    );
    await retention.stop();
  }

  /** By the commands of `release`. */
  async check(release: Release): Promise<Violations> {
    const { notes } = await getState<{ readonly notes: number }>(this.fleet.url, DIARY, "diary");
    const archive = ["--archive", this.fleet.archive];
    const history = await runRelease(release, this.fleet, "history", "Diary", DIARY, "--json", ...archive); // prettier-ignore
    return checkNotes(release.name, notes, history);
  }

  close(): void {
    this.client.close();
  }
}
