/** Starts of an agent that are repeated because the ones before failed, and what ends them. */
import { expect, test } from "vitest";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import type { SlotCall } from "../../schemas/bus/Call.ts";
import { CommitRig } from "../faults/CommitRig.ts";

const NO_BODY = new Uint8Array();
const FETCH: SlotCall = {
  kind: "fetch", id: "get", method: "GET", url: "http://agent/", headers: [],
}; // prettier-ignore

/** An agent whose `onStart` fails while the test says so, with one input that waits for it. */
async function failing() {
  const seen = { starts: 0, fails: true, runs: 0 };
  class Failing extends Agent<unknown> {
    override onStart(): void {
      seen.starts++;
      if (seen.fails) throw new Error("onStart fails");
    }
    override async onRequest(): Promise<Response> {
      seen.runs++;
      return Response.json("here");
    }
  }
  const rig = await CommitRig.make(Failing as AgentClassType);
  await rig.deliver(1);
  expect(rig.slot.starts.waits).toBe(true);
  return { rig, seen };
}

test("an agent whose start fails is not started again by itself once it is erased", async () => {
  const { rig, seen } = await failing();
  const { starts } = seen;
  seen.fails = false;
  await rig.slot.call({ kind: "erase" }, NO_BODY);
  expect(rig.left).toContain("ack 1");
  expect(rig.slot.empty).toBe(true);
  await rig.pass(60_000);
  expect(seen.starts).toBe(starts);
  expect(await rig.events()).toEqual([]);
});

test("a start that succeeds for a call ends the wait of the inputs", async () => {
  const { rig, seen } = await failing();
  seen.fails = false;
  await rig.slot.call(FETCH, NO_BODY);
  expect(rig.slot.starts.waits).toBe(false);
  await rig.settled();
  expect(seen.runs).toBe(2);
});

test("after its next attempt is cancelled, a slot starts its agent when an input arrives", async () => {
  const { rig, seen } = await failing();
  rig.slot.starts.cancel();
  seen.fails = false;
  await rig.deliver(2);
  expect(rig.left).toEqual(expect.arrayContaining(["ack 1", "ack 2"]));
});

test("an agent whose events can't be stored is started again after pauses that grow", async () => {
  let starts = 0;
  class Counting extends Agent<unknown, { runs: number }> {
    override initialState = { runs: 0 };
    override onStart(): void {
      starts++;
    }
    override async onRequest(): Promise<Response> {
      this.setState({ runs: this.state.runs + 1 });
      return Response.json("here");
    }
  }
  const rig = await CommitRig.make(Counting as AgentClassType);
  rig.denied = true;
  await rig.deliver(1);
  await rig.pass(5_000);
  expect(starts).toBeGreaterThan(2);
  expect(starts).toBeLessThan(8);
  rig.denied = false;
  await rig.pass(60_000);
  expect(rig.left).toContain("ack 1");
  // The next failure does not continue these.
  const before = starts;
  rig.denied = true;
  await rig.deliver(2);
  await rig.pass(1_000);
  expect(starts).toBeGreaterThan(before + 1);
});

test("an agent whose dead letter can't be stored is started again after pauses that grow", async () => {
  let starts = 0;
  class Failing extends Agent<unknown> {
    static override options = { retry: { maxAttempts: 1 } };
    override onStart(): void {
      if (++starts > 1_000) throw new Error("no end");
    }
    override async onRequest(): Promise<Response> {
      throw new Error("it fails");
    }
  }
  const rig = await CommitRig.make(Failing as AgentClassType);
  rig.mayBury = Promise.reject(new Error("the login may not"));
  rig.mayBury.catch(() => undefined);
  await rig.deliver(1);
  await rig.pass(5_000);
  expect(starts).toBeGreaterThan(2);
  expect(starts).toBeLessThan(8);
  rig.mayBury = Promise.resolve();
  await rig.pass(60_000);
  expect(rig.left).toEqual(expect.arrayContaining(["buried", "ack 1"]));
});
