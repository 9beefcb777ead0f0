/** `agents console` in a process of its own, and agents that only their journals know. */
import { spawn, type ChildProcess } from "node:child_process";
import { request } from "node:http";
import { fileURLToPath } from "node:url";
import type { JournalShape } from "../../core/journal/Journal.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { pollUntil } from "../kit/poll.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));

export interface Served {
  readonly process: ChildProcess;
  readonly url: string;
  readonly said: string;
  readonly ended: Promise<number | null>;
}

/** Resolves when it serves; rejects with its output if it ends first. */
export async function serveConsole(
  natsUrl: string,
  args: ReadonlyArray<string>,
  env: Record<string, string>,
): Promise<Served> {
  const child = spawn(
    process.execPath,
    [MAIN, "console", "--nats", natsUrl, "--port", "0", ...args],
    { env: { PATH: process.env["PATH"] ?? "", ...env }, stdio: ["ignore", "ignore", "pipe"] },
  );
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += String(chunk)));
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const url = await pollUntil("the console serves", () => {
    const found = /http:\/\/[^/]+/.exec(said)?.[0];
    const over = child.exitCode !== null;
    return found === undefined && !over ? { done: false, saw: said } : { done: true, value: found };
  });
  if (url === undefined) {
    await ended;
    throw new Error(`it ended: ${said}`);
  }
  return { process: child, url, said, ended };
}

/** The answer's status. `headers` may be those that `fetch` sets itself. */
export const statusWith = (
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    request(url, { method, headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on("error", reject)
      .end();
  });

/** Resolves to the sequence. Without turns it is a claim. */
export async function storeEvent(
  journal: Pick<JournalShape, "append">,
  name: string,
  { turns, after }: { readonly turns: number; readonly after: number },
): Promise<number> {
  const id = agentId("BulkAgent", name);
  const event = encodeEvent({
    id: `${name} ${after}`,
    agent: [id.class, id.name],
    kind: turns === 0 ? "claimed" : "turns",
    host: "h",
    epoch: 1,
    time: 1_000,
    turns: Array.from({ length: turns }, () => ({ cause: { kind: "rpc" as const } })),
    ...(after > 0 && { after }),
  });
  const signal = AbortSignal.timeout(10_000);
  const stored = await journal.append(id, event, { expectedSeq: after as Sequence, signal });
  if (stored._tag !== "Stored") throw new Error(`${name} was not stored: ${stored._tag}`);
  return stored.seq;
}
