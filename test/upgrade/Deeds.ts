/**
 * Turns of many steps that go from one release to the other, as queue items and as durable calls,
 * and questions to people that one release asks and the other answers. What has to hold of them:
 * `checkDeed`, `checkHandedOn`, `checkPetition`.
 */
import { pollUntil } from "../kit/poll.ts";
import type { Violations } from "../kit/checkers.ts";
import { getState, openClient } from "../membership/Callers.ts";
import type { AgentClient } from "../../services/client/AgentClient.ts";
import { startWorld, type World } from "../step/World.ts";
import { checkDeed, checkHandedOn, checkPetition } from "./rules.ts";
import type { DeedRow } from "./storedModule.ts";

interface DeedStub {
  begin(steps: number): void;
  make(steps: number): string;
  petition(): void;
  isAsked(): boolean;
  decide(by: string): void;
}

/** Together longer than two hosts take to be replaced. */
const STEPS = 100;
const STEP_MS = 1_000;
type Way = "queue" | "call";
const PEOPLE = ["ann", "bob"] as const;
/** The wait for a deed, on a machine that is late. */
const DONE_TIMEOUT_MS = 600_000;

/** What the steps ask: it takes its time to answer. */
export const startSlowWorld = (): Promise<World> =>
  startWorld(() => new Promise((resolve) => setTimeout(resolve, STEP_MS)));

export class Deeds {
  private readonly url: string;
  private readonly world: World;
  private readonly ways: ReadonlyArray<Way>;
  private readonly clients: Array<AgentClient<DeedStub>> = [];
  /** What the caller of each durable call was told. */
  private readonly told = new Map<string, Promise<string>>();
  private readonly begun: string[] = [];
  private readonly asked: string[] = [];

  /** `ways`: those that the older release has. */
  constructor(url: string, world: World, ways: ReadonlyArray<Way>) {
    this.url = url;
    this.world = world;
    this.ways = ways;
  }

  /** On whichever release hosts them. */
  async begin(round: string): Promise<void> {
    for (const way of this.ways) {
      const name = `${way}-${round}`;
      this.begun.push(name);
      if (way === "queue") await this.client(name).call("begin", [STEPS]);
      else this.told.set(name, this.make(name));
    }
    const name = `ask-${round}`;
    this.asked.push(name);
    const client = this.client(name);
    await client.call("petition");
    await pollUntil(`${name} has asked`, () => client.call("isAsked"));
  }

  /** Both people do, one after the other. Call it when the other release hosts those who asked. */
  async decide(round: string): Promise<void> {
    for (const by of PEOPLE) await this.client(`ask-${round}`).call("decide", [by]);
  }

  async check(): Promise<Violations> {
    const wrong: string[] = [];
    const ended: DeedRow[] = [];
    for (const id of this.begun) {
      // A repeated call returns the result of the first run, and a failed call is not repeated.
      const told = this.told.has(id) ? await Promise.all([this.told.get(id)!, this.make(id)]) : [];
      const rows = await this.rows(id, ({ what }) => what === "end");
      const calls = this.world.calls.filter(({ agent }) => agent === id);
      wrong.push(...checkDeed({ id, steps: STEPS, rows, calls, told }));
      ended.push(...rows);
    }
    for (const id of this.asked)
      wrong.push(...checkPetition(id, await this.rows(id, ({ run }) => run === "answered")));
    return [...wrong, ...checkHandedOn(ended)];
  }

  close(): void {
    for (const client of this.clients) client.close();
  }

  private make(name: string): Promise<string> {
    const told = this.client(name).call("make", [STEPS], { key: name, timeout: 0 });
    told.catch(() => undefined); // awaited by `check`
    return told;
  }

  private client(name: string): AgentClient<DeedStub> {
    const client = openClient<DeedStub>(this.url, name, "deed");
    this.clients.push(client);
    return client;
  }

  private rows(name: string, isLast: (row: DeedRow) => boolean): Promise<ReadonlyArray<DeedRow>> {
    return pollUntil(
      `${name} is done`,
      async () => {
        const rows = await getState<ReadonlyArray<DeedRow>>(this.url, name, "deed");
        return rows.some(isLast) ? { done: true, value: rows } : { done: false, saw: rows };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 1_000 },
    );
  }
}
