/**
 * Agents for the process that trims, an hour ahead: what was stored just now is old enough to go.
 * At one point of its work with one agent (`DIE_AT`, `DIE_OF`) the process kills itself: before or
 * after an object of the archive has its name, a base was stored, the journal was trimmed.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";
import { Agent } from "agents";

type Step = "index" | "segment" | "first base" | "second base" | "trim";
export type DiePoint = `${"before" | "after"} ${Step}`;

const { DIE_AT, DIE_OF = "" } = process.env;

function at(point: DiePoint): void {
  if (DIE_AT !== point) return;
  fs.writeSync(process.stderr.fd, `dies ${point} of ${DIE_OF}\n`);
  process.kill(process.pid, "SIGKILL");
  // Nothing else runs until the signal arrives.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

const now = Date.now.bind(Date);
Date.now = () => now() + 3_600_000;

const { rename } = fs.promises;
fs.promises.rename = async (from, to) => {
  const path = String(to);
  const step = path.endsWith(".index.json") ? "index" : path.endsWith(".jsonl.gz") ? "segment" : undefined; // prettier-ignore
  if (step !== undefined) at(`before ${step}`);
  await rename(from, to);
  if (step !== undefined) at(`after ${step}`);
};
syncBuiltinESMExports();

let bases = 0;
/** What its answer is sent to, of the request that the process waits for. */
let asked: { readonly step: Step; readonly answer: string } | undefined;

/** The step that a request to the broker is, and where its answer is sent. */
function stepOf(sent: string): typeof asked {
  const base = new RegExp(`PUB \\S+\\.snapshot\\.\\+base\\.Kept\\.${DIE_OF} (\\S+) `).exec(sent);
  if (base !== null) return { step: ++bases === 1 ? "first base" : "second base", answer: base[1]! }; // prettier-ignore
  const trim = /PUB \$JS\.API\.STREAM\.PURGE\.\S+ (\S+) /.exec(sent);
  return trim !== null && sent.includes(`Kept.${DIE_OF}"`) ? { step: "trim", answer: trim[1]! } : undefined; // prettier-ignore
}

const { write, push } = Socket.prototype;
Socket.prototype.write = function (this: Socket, chunk: string | Uint8Array, ...rest: never[]) {
  const step = stepOf(Buffer.from(chunk as Uint8Array).toString("latin1"));
  if (step !== undefined) {
    asked = step;
    at(`before ${step.step}`);
  }
  return write.call(this, chunk, ...rest);
} as typeof write;
Socket.prototype.push = function (this: Socket, chunk: Buffer | null, ...rest: never[]) {
  if (asked !== undefined && chunk?.includes(asked.answer) === true) at(`after ${asked.step}`);
  return push.call(this, chunk, ...rest);
};

export class Kept extends Agent {
  static override options = { history: { events: 3 } };
}
