/** A process that stops waits for what its module's handlers passed to `waitUntil`. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent } from "agents";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { deliver, start } from "../email/kit.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { collectingLog } from "../kit/system.ts";

class Board extends Agent {}

interface Context {
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

let nats: TestNats;
beforeAll(async () => {
  nats = await startNats();
});
afterAll(() => nats.stop());

/** Ends after a stop has begun, in two parts. */
function work() {
  const done: string[] = [];
  let go: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (go = resolve));
  const handle = (context: Context): void => {
    context.waitUntil(
      begun
        .then(() => new Promise((resolve) => setImmediate(resolve)))
        .then(() => {
          done.push("first");
          context.waitUntil(Promise.resolve().then(() => done.push("second")));
        }),
    );
  };
  return { done, handle, go };
}

test("a gateway waits for the work of fetch", async () => {
  const { done, handle, go } = work();
  const fetchOf = (_request: Request, _env: unknown, context: Context) => {
    handle(context);
    return new Response("answered");
  };
  const module = { Board, default: { fetch: fetchOf } };
  const running = await start({ role: "gateway", nats: nats.url, namespace: "fetch", module });
  expect(await (await fetch(`http://127.0.0.1:${running.port}/`)).text()).toBe("answered");
  const stopped = running.stop();
  setTimeout(go, 50);
  await stopped;
  expect(done).toEqual(["first", "second"]);
});

test("a mail process waits for the work of email", async () => {
  const { done, handle, go } = work();
  const email = (_message: unknown, _env: unknown, context: Context) => handle(context);
  const module = { Board, default: { email } };
  const running = await start({ role: "mail", nats: nats.url, namespace: "mail", module });
  const mail = { from: "a@x.org", to: "b@x.org", subject: "s", text: "t" };
  expect((await deliver(running.smtpPort, mail)).code).toBe(250);
  const stopped = running.stop();
  setTimeout(go, 50);
  await stopped;
  expect(done).toEqual(["first", "second"]);
});

test("work that does not end delays a stop by 10 s, and is logged", async () => {
  const time = new VirtualTime();
  const log = collectingLog();
  const unfinished = new UnfinishedWork(time, log);
  unfinished.add(new Promise(() => undefined));
  unfinished.add(Promise.reject(new Error("no")));
  let settled = false;
  void unfinished.settle().then(() => (settled = true));
  await time.advance(9_999);
  expect(settled).toBe(false);
  await time.advance(1);
  expect(settled).toBe(true);
  expect(log.lines.map(({ level, fields }) => [level, fields])).toEqual([
    ["error", { error: "no" }],
    ["warn", { unfinished: 1 }],
  ]);
});
