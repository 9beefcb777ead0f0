/** The base for RPC and requests: uWebSockets and core NATS (`socketFloor`), in 1 or 2 parts. */
import { fileURLToPath } from "node:url";
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats } from "../../kit/natsServer.ts";
import { ROOT } from "./findFloor.ts";
import { RUN_SOURCE, ServerProcess } from "./ServerProcess.ts";

const FLOOR = fileURLToPath(new URL("./socketFloor.ts", import.meta.url));

export interface Echo {
  readonly port: number;
  readonly stop: () => Promise<void>;
}

export async function startEcho(form: "one process" | "two processes"): Promise<Echo> {
  const nats = await startNats();
  const port = await pickPort();
  const start = (args: ReadonlyArray<string>): ServerProcess =>
    new ServerProcess({ name: "echo", cwd: ROOT, args: [...RUN_SOURCE, FLOOR, ...args] });
  const processes = [
    start(["echo", String(port), nats.url, ...(form === "one process" ? ["both"] : [])]),
    ...(form === "one process" ? [] : [start(["respond", nats.url])]),
  ];
  for (const process of processes) await process.ready((output) => output.includes("listening"));
  const stop = async (): Promise<void> => {
    await Promise.all(processes.map((process) => process.stop()));
    await nats.stop();
  };
  return { port, stop };
}
