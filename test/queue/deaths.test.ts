/** Jobs and inputs given up while their host dies: how many dead letters, what runs again. */
import { beforeEach, describe, expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { agentId } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { JobRig } from "./JobRig.ts";

let rig: JobRig;
/** Runs of `onError`. */
let reports: number;
/** Whether `onError` ends its host. */
let kills: boolean;

class Failing extends Agent {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 1 } };
  work(): void {
    throw new Error("it always fails");
  }
  plan(): Promise<unknown> {
    return this.schedule("work", { delayInSeconds: 1 });
  }
  push(): Promise<string> {
    return this.queue("work");
  }
  override onRequest(): never {
    throw new Error("it always fails");
  }
  async left(): Promise<number> {
    return this.getSchedules().length + (await this.dequeueAll());
  }
  override onError(error: unknown): void {
    reports++;
    if (kills) rig.kill();
    throw error;
  }
}

beforeEach(async () => {
  reports = 0;
  kills = false;
  rig = await JobRig.make({ Failing });
});

/** Starts a host in the place of each that dies, ten times at most. */
async function survive(): Promise<void> {
  for (let n = 0; n < 10; n++) {
    await rig.pass(5_000);
    rig.kill();
    await rig.startHost();
  }
  await rig.pass(5_000);
}

/** The first host dies after its dead letter. Returns how many letters were written. */
function killBetween(): () => number {
  let letters = 0;
  let killed = false;
  rig.broker.intercept = ({ kind }) => {
    if (kind === "deadLetter") letters++;
    if (kind !== "append" || letters === 0 || killed) return;
    killed = true;
    rig.kill();
  };
  return () => letters;
}

test("a stored input whose host dies between the dead letter and the event is one dead letter, and each input its own", async () => {
  const letters = killBetween();
  const { signal } = new AbortController();
  const inbox = makeMemoryInbox(rig.broker.connect("gateway"));
  for (const key of ["github:1", "github:2"]) {
    const reply = key === "github:1" ? {} : { reply: { subject: "answers", id: "g.1" } };
    const head = { key, kind: "webhook", time: rig.time.nowMs(), ...reply } as const;
    await inbox.publish(agentId("Failing", "a"), encodeEnvelope(head), { signal });
  }
  await survive();
  expect(letters()).toBeGreaterThan(2);
  expect(rig.dead.map(({ key }) => key).toSorted()).toEqual(["github:1", "github:2"]);
});

describe.each([
  ["a schedule", "plan"],
  ["a queue item", "push"],
])("%s", (_, start) => {
  test("whose host dies between the dead letter and the event is one dead letter", async () => {
    const letters = killBetween();
    rig.call("a", start).catch(() => undefined); // the answer may die with the host
    await survive();
    expect([letters(), rig.dead.length]).toEqual([2, 1]);
    expect(await rig.call("a", "left")).toBe(0);
  });

  test("whose onError ends its host becomes one dead letter, and ends no more hosts than it has attempts, and two", async () => {
    kills = true;
    rig.call("a", start).catch(() => undefined);
    await survive();
    expect([reports, rig.dead.length]).toEqual([4, 1]);
    expect(await rig.call("a", "left")).toBe(0);
  });
});
