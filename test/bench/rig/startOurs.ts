/** Ours as a subject: the built `agents` command on a broker of its own, in one process or more. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats } from "../../kit/natsServer.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { BenchFailed, type BenchOptions } from "../Bench.ts";
import { ROOT } from "./findFloor.ts";
import { cpuSeconds, ServerProcess } from "./ServerProcess.ts";
import { isReady } from "./startAgents.ts";
import type { Subject } from "./Subject.ts";

const MODULE = fileURLToPath(new URL("../agents/countingAgents.ts", import.meta.url));
const COMMAND = join(ROOT, "dist/services/cli/main.js");
/** What `presign.mjs` signs with. */
export const SECRET = "topsecret";

/** Four: two workers each. */
export type Form = "one process" | "two processes" | "four processes";

/**
 * Loaded before the program, in its workers too: records of deliveries are dropped as soon as they
 * are made while `globalThis.dropsRecords` is set (`agents/countingAgents`). There is no such
 * option, because without the log nobody finds a lost webhook.
 */
const DELIVERY_LOG_SWITCH = `data:text/javascript,${encodeURIComponent(`
  import { RecordBuffer } from ${JSON.stringify(pathToFileURL(join(ROOT, "dist/core/delivery/RecordBuffer.js")).href)};
  const { record } = RecordBuffer.prototype;
  RecordBuffer.prototype.record = function (given) {
    if (globalThis.dropsRecords !== true) record.call(this, given);
  };
`)}`;

/** `deliveryLogSwitch`: a request can turn the delivery log off. Default false. */
export async function startOurs(
  form: Form,
  options: BenchOptions,
  { deliveryLogSwitch = false }: { readonly deliveryLogSwitch?: boolean } = {},
): Promise<Subject> {
  if (!existsSync(COMMAND)) throw new BenchFailed("There is no build to measure: npm run build");
  const nats = await startNats({ syncAlways: options.syncAlways });
  await provision(nats.url, options.streamGroups);
  const folder = tempFolder("bench");
  const [port, admin, hostAdmin] = [await pickPort(), await pickPort(), await pickPort()];
  const start = (role: "dev" | "gateway" | "host", adminPort: number): ServerProcess =>
    new ServerProcess({
      name: `agents ${role}`,
      cwd: folder.path,
      args: [
        ...(options.profile === undefined
          ? []
          : ["--cpu-prof", `--cpu-prof-dir=${options.profile}`]),
        // As `npm start`, the image and the units run it.
        "--max-semi-space-size=64",
        COMMAND,
        role,
        MODULE,
        "--nats", nats.url, "--data", join(folder.path, "data"),
        "--admin-port", String(adminPort), "--log-level", "warn",
        "--group-commit", options.syncAlways ? "on" : "off",
        ...(role === "host" ? [] : ["--port", String(port), "--hostname", "127.0.0.1"]),
        ...(form === "four processes" ? ["--workers", "2"] : []),
      ], // prettier-ignore
      env: {
        GITHUB_WEBHOOK_SECRET: SECRET,
        ...(deliveryLogSwitch && { NODE_OPTIONS: `--import=${DELIVERY_LOG_SWITCH}` }),
      },
    });
  const processes =
    form === "one process"
      ? [start("dev", admin)]
      : // The host creates the installation, so it comes first.
        [start("host", hostAdmin)];
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map((server) => server.stop()));
    await nats.stop();
    folder.remove();
  };
  try {
    if (form !== "one process") {
      await processes[0]!.ready(() => isReady(hostAdmin));
      processes.push(start("gateway", admin));
    }
    await processes.at(-1)!.ready(() => isReady(admin));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name: form,
    broker: nats.url,
    url: `http://127.0.0.1:${port}`,
    target: { PATH_FIXED: "/webhooks/github" },
    cpuSeconds: () => ({
      node: processes.reduce((sum, server) => sum + (server.cpuSeconds ?? NaN), 0),
      broker: cpuSeconds(nats.pid) ?? NaN,
    }),
    answers: () => answersOf(admin),
    stop,
  };
}

const provision = (nats: string, streamGroups: number): Promise<unknown> =>
  promisify(execFile)(process.execPath, [
    COMMAND, "provision", "--nats", nats, "--stream-groups", String(streamGroups),
  ]); // prettier-ignore

/** The gateways' own count of answers by status: exact, with answers to callers that left. */
async function answersOf(adminPort: number): Promise<ReadonlyMap<number, number>> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text();
  const found = text.matchAll(/^agents_webhooks_total\{.*status="(\d+)".*\} (\d+)$/gm);
  const counts = new Map<number, number>();
  for (const [, status, count] of found)
    counts.set(Number(status), (counts.get(Number(status)) ?? 0) + Number(count));
  return counts;
}
