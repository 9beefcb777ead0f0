/** What a module's code sends to the control process in the place of its runtime. */
import { expect, test } from "vitest";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { reportReader, type WatchdogReport } from "../../services/watchdog/reports.ts";
import { serveIsolation } from "../../services/workers/serveIsolation.ts";
import { collectingLog } from "../kit/system.ts";
import { HandWorker } from "./HandWorker.ts";

const BAD = { class: "Repo", name: "bad" };
const TURN = { ...BAD, turn: "webhook", attempt: 1 };
const ASK = { kind: "drain" };
const OWNER = { epoch: 1, host: "host" };

/** A control process with one worker, of which an agent is isolated. */
function served() {
  const time = new VirtualTime();
  const options = { time, log: collectingLog(), start: () => new HandWorker() };
  const { ward, serve } = serveIsolation(options, () => undefined);
  const worker = new HandWorker();
  serve(0, worker);
  serve(1, new HandWorker());
  ward.ended(1, { reason: "its turn held the thread", turn: TURN, exactly: true });
  return { ward, worker };
}

test.each([
  ["a request without an owner", { isolate: { n: 1, agent: BAD, ask: ASK } }],
  ["a request without a number", { isolate: { agent: BAD, owner: OWNER, ask: ASK } }],
  ["a request without an epoch", { isolate: { n: 1, agent: BAD, owner: {}, ask: ASK } }],
  ["a request of nothing beside new code", { newCode: true, isolate: null }],
  ["a request of nothing beside an agent", { lost: BAD, isolate: {} }],
  ["agents of nothing", { left: null, lost: null, isolateAnswer: null }],
  ["an answer without a number", { isolateAnswer: { reply: { kind: "done" } } }],
  ["nothing", null],
  ["a number", 5],
])("%s does not end the control process", (_what, message) => {
  const { ward, worker } = served();
  worker.say(message);
  expect(ward.agents).toEqual([BAD]);
  worker.say({ isolate: { n: 7, agent: BAD, owner: OWNER, ask: ASK } });
  expect(worker.sent).toContainEqual({ isolateAnswer: { n: 7, reply: { kind: "ended" } } });
});

test.each([null, 5, {}, { class: "Repo" }, { ...TURN, class: 5 }])(
  "an end by %j is the end of no turn",
  (turn) => {
    const seen: WatchdogReport[] = [];
    const read = reportReader((report) => seen.push(report));
    read(JSON.stringify({ ending: { reason: "it ends", turn, exactly: true } }) + "\n");
    expect(seen).toEqual([{ ending: { reason: "it ends", turn: undefined, exactly: true } }]);
  },
);
