/** An agent that ran in a process of its own, and returns to its host under the same lease. */
import * as Effect from "effect/Effect";
import * as Scope from "effect/Scope";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Agent } from "agents";
import { agentId } from "../../schemas/Address.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import type { Isolation, OnAsk } from "../../core/input/Isolation.ts";
import type { BlobsShape } from "../../core/journal/Blobs.ts";
import { serveIsolated } from "../../services/host/serveIsolated.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { JobRig } from "../queue/JobRig.ts";
import { makeLatch } from "../system/kit.ts";

const ID = agentId("Counter", "c");
/** Where each start of the agent waits. Undefined: nowhere. */
let start: ReturnType<typeof makeLatch> | undefined;
let adds: number;
/** Where the agent's process waits for the body of a call. */
let body: ReturnType<typeof makeLatch>;

class Counter extends Agent<unknown, { readonly count: number }> {
  override initialState = { count: 0 };

  override async onStart(): Promise<void> {
    this.sql`CREATE TABLE IF NOT EXISTS marks (n INTEGER PRIMARY KEY)`;
    await start?.opened;
  }
  add(): void {
    adds++;
    this.sql`INSERT INTO marks DEFAULT VALUES`;
    this.setState({ count: this.state.count + 1 });
  }
  override onRequest(): Response {
    this.add();
    return new Response("added");
  }
  async addLater(): Promise<void> {
    await this.schedule(60, "add");
  }
  count(): readonly [number, number] {
    return [this.state.count, this.sql`SELECT n FROM marks`.length];
  }
}

/** Passes what is asked to the agent's process. */
class Ward implements Isolation {
  readonly endedHost = undefined;
  isAlone = false;
  receive: Parameters<OnAsk>[0] = () => undefined;
  readonly holds = (): boolean => this.isAlone;
  readonly ask: Isolation["ask"] = (id, owner, ask) =>
    new Promise((resolve) => this.receive(id, owner, ask, resolve));
  readonly left = (): void => void (this.isAlone = false);
  readonly onIsolate = (): void => undefined;
  readonly onReturn = (): void => undefined;
  readonly lost = (): void => undefined;
  readonly newCode = (): void => undefined;
}

let ward: Ward;
let rig: JobRig;
let folder: TempFolder;
let scope: Scope.Closeable;

beforeEach(async () => {
  [start, adds, body] = [undefined, 0, makeLatch()];
  ward = new Ward();
  folder = tempFolder("isolated-return");
  rig = await JobRig.make({ Counter }, { isolation: ward, folder: folder.path });
  const services = await rig.servicesOf("alone", rig.broker.connect("alone"));
  const get: BlobsShape["get"] = () => body.opened.then(() => new Uint8Array(1));
  const alone = { ...services, blobs: { ...services.blobs, get } };
  scope = Effect.runSync(Scope.make());
  await Effect.runPromise(
    Scope.provide(
      serveIsolated(alone, (f) => void (ward.receive = f)),
      scope,
    ),
  );
});
afterEach(() => {
  rig.kill();
  folder.remove();
});

async function isolate(): Promise<void> {
  ward.isAlone = true;
  rig.shard!.isolated(ID);
  await rig.pass(100);
}

test("knows what it wrote there", async () => {
  await rig.call("c", "add");
  await isolate();
  await rig.call("c", "add");
  expect(await rig.call("c", "count")).toEqual([2, 2]);
  rig.shard!.returned(ID);
  await rig.pass(100);
  expect(ward.isAlone).toBe(false);
  expect(await rig.call("c", "count")).toEqual([2, 2]);
});

test("does not run there any more, although it was just starting", async () => {
  await isolate();
  await rig.call("c", "addLater");
  // It hibernates there, and the alarm wakes it.
  await rig.pass(40_000);
  start = makeLatch();
  await rig.pass(20_500);
  rig.shard!.returned(ID);
  await rig.pass(100);
  start.open();
  await rig.pass(100);
  expect(await rig.call("c", "count")).toEqual([1, 1]);
  expect(adds).toBe(1);
});

test("does not run there any more, although the body of its call was just being read", async () => {
  await isolate();
  const head = { id: "1", url: "http://a.example/", method: "POST", headers: [], blob: "calls/1" };
  const slot = rig.shard!["slots"].of(ID);
  const called = slot.call({ kind: "fetch", ...head }, new Uint8Array());
  rig.shard!.returned(ID);
  await rig.pass(100);
  expect(await rig.call("c", "count")).toEqual([0, 0]);
  body.open();
  await expect(called).rejects.toThrow(AgentDiscarded);
  expect(await rig.call("c", "count")).toEqual([0, 0]);
  expect(adds).toBe(0);
});
