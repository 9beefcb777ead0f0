/**
 * Agents that block or end their process in the way that a webhook names, and neighbours that only
 * count.
 */
import { execFileSync } from "node:child_process";
import { pbkdf2Sync } from "node:crypto";
import { EventEmitter } from "node:events";
import { Socket } from "node:net";
import { Agent } from "agents";
import { body, github, webhook } from "agents/webhooks";
import { holdThread } from "../kit/holdThread.ts";

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let isOver = false;
setInterval(() => isOver && process.exit(1), 50).unref();

const kept: unknown[] = [];
const ASLEEP = new Int32Array(new SharedArrayBuffer(4));

export const WAYS: Readonly<Record<string, (agent: Holder) => unknown>> = {
  loop: () => spin(),
  afterAwait: async () => {
    await pause(5);
    spin();
  },
  // Read only after the handler has ended.
  thrown: () => {
    // oxlint-disable-next-line no-throw-literal -- this is what is tested
    throw { toString: spin };
  },
  regex: () => /^(a+)+$/.test(`${"a".repeat(50)}b`),
  // Almost all of the time is spent in Node's own code, between two of them.
  microtasks: async () => {
    const again = (): void => queueMicrotask(again);
    again();
    await pause(5);
  },
  sql: (agent) =>
    agent.sql`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n`,
  native: () => pbkdf2Sync("a", "b", 2_000_000_000, 64, "sha512"),
  heap: () => {
    for (;;) kept.push({ a: [kept.length, `x${kept.length}`] });
  },
  keep: () => keepMore(),
  leak: async () => {
    for (;;) {
      for (let n = 0; n < 20_000; n++) kept.push({ a: [kept.length, `x${kept.length}`] });
      await pause(1);
    }
  },
  buffers: async () => {
    for (;;) {
      kept.push(Buffer.alloc(10_000_000, 1));
      await pause(1);
    }
  },
  // Looked at before `super()`, in a constructor whose `this` V8 keeps for a function.
  construct: () => new Held(),
  // Longer than any string may be: an error like others.
  longString: () => "x".repeat(2 ** 31),
  exit: () => process.exit(1),
  abort: () => process.abort(),
  replace: () => replaced(Map.prototype, { get: () => undefined }),
  pollute: () => Object.assign(Object.prototype, { error: "of every answer" }),
  // As a crash of native code: nothing in the process can say whose turn it was.
  crash: () => execFileSync("kill", ["-SEGV", String(process.pid)]),
  killed: () => process.kill(process.pid, "SIGKILL"),
  disconnect: () => process.disconnect(),
  signal: () => process.emit("SIGTERM"),
  unheard: () => replaced(EventEmitter.prototype, { emit: () => true }),
  unwritten: () => replaced(Socket.prototype, { write: () => true }),
  // Ends it in a timer that no turn has started.
  outside: () => void (isOver = true),
  reallyExit: () => (process as unknown as { reallyExit: () => never }).reallyExit(),
};

/** Less than a MB, as a cache of the module that is never emptied. */
function keepMore(): void {
  for (let n = 0; n < 8_000; n++) kept.push({ a: [kept.length, `x${kept.length}`] });
}

/** Never resolves, so the input is not done when its process is ended. */
function replaced(of: object, by: object): Promise<never> {
  Object.assign(of, by);
  return new Promise(() => undefined);
}

function spin(): never {
  for (;;);
}

class Held extends Map {
  readonly own: () => this;

  constructor() {
    const own = (): this => this;
    // Not by `holdThread`, which would be what is paused.
    for (let n = 0; n < 14; n++) Atomics.wait(ASLEEP, 0, 0, 50);
    super();
    this.own = own;
  }
}

export class Holder extends Agent {
  static override options = { http: "open", cpuSeconds: 1, retry: { maxAttempts: 2 } };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return new Response("alive");
    const { how } = (await request.json()) as { how: string };
    await WAYS[how]?.(this);
    return new Response("OK");
  }

  /** The default reads the error, to log it. */
  override onError(error: unknown): never {
    throw error;
  }
}

/** Its memory is full before its time is over, on a slow machine, too. */
export class Hoarder extends Holder {
  static override options = { http: "open", cpuSeconds: 60, retry: { maxAttempts: 2 } };
}

/** Keeps a MB of each webhook, and never leaves memory. */
export class Keeper extends Holder {
  static override options = { ...Holder.options, hibernate: false };
  readonly #kept = new Map<number, unknown>();

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return new Response("alive");
    await pause(1);
    const some = Array.from({ length: 8_000 }, (_, n) => ({ a: [n, `x${n}`] }));
    this.#kept.set(this.#kept.size, some);
    return new Response("OK");
  }
}

export class Neighbour extends Agent<unknown, { readonly count: number }> {
  static override options = { http: "open" };
  override initialState = { count: 0 };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method !== "GET") {
      await pause(1);
      this.setState({ count: this.state.count + 1 });
    }
    return Response.json(this.state);
  }
}

/** By when they are over. */
const pauses = new Map<number, Promise<void>>();

/** Waits for what others of its process wait for, and then holds the thread for a while. */
export class Waiter extends Neighbour {
  static override options = { http: "open", cpuSeconds: 1 };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const { untilMs, workMs } = (await request.json()) as { untilMs: number; workMs: number };
    if (!pauses.has(untilMs)) pauses.set(untilMs, pause(untilMs - Date.now()));
    await pauses.get(untilMs);
    holdThread(workMs);
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

/** With the default limit, of which its holds are a small part. */
export class Worker extends Waiter {
  static override options = { http: "open", cpuSeconds: 5 };
}

const verify = github({ secret: "SECRET" });
/** Stored and answered 202 when an agent is slow. */
const deadlineMs = 1_500;

export default {
  webhooks: [
    webhook("/webhooks/hoarder", { agent: Hoarder, verify, entity: body("agent"), deadlineMs }),
    webhook("/webhooks/holder", { agent: Holder, verify, entity: body("agent"), deadlineMs }),
    webhook("/webhooks/keeper", { agent: Keeper, verify, entity: body("agent"), deadlineMs }),
    webhook("/webhooks/waiter", { agent: Waiter, verify, entity: body("agent"), deadlineMs }),
    webhook("/webhooks/worker", { agent: Worker, verify, entity: body("agent"), deadlineMs }),
    webhook("/webhooks/neighbour", { agent: Neighbour, verify, entity: body("agent"), deadlineMs }),
  ],
};
