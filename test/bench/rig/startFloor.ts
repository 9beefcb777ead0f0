/** Pipelines that are measured as subjects in comparison with ours, each on its own broker. */
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats, type TestNats } from "../../kit/natsServer.ts";
import type { BenchOptions } from "../Bench.ts";
import { ROOT } from "./findFloor.ts";
import { cpuSeconds, ServerProcess } from "./ServerProcess.ts";
import type { Subject } from "./Subject.ts";

export const startFloor = (floor: string, options: BenchOptions): Promise<Subject> =>
  startPipeline(options, {
    name: "floor",
    args: (nats, port) => [floor, "--raw", "--nats", `127.0.0.1:${nats.port}`, "--port", `${port}`],
    target: { PATH_PREFIX: "/webhooks/acme-" },
  });

export interface Pipeline extends Pick<Subject, "name" | "target"> {
  readonly args: (nats: TestNats, port: number) => ReadonlyArray<string>;
}

export async function startPipeline(
  { syncAlways }: BenchOptions,
  { name, args, target }: Pipeline,
): Promise<Subject> {
  const nats = await startNats({ syncAlways });
  const port = await pickPort();
  // The floor takes its packages from the working directory.
  const server = new ServerProcess({ name, cwd: ROOT, args: [...args(nats, port)] });
  const stop = async (): Promise<void> => {
    await server.stop();
    await nats.stop();
  };
  try {
    await server.ready((output) => output.includes("listening"));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    name,
    broker: nats.url,
    url: `http://127.0.0.1:${port}`,
    target,
    cpuSeconds: () => ({ node: server.cpuSeconds ?? NaN, broker: cpuSeconds(nats.pid) ?? NaN }),
    answers: () => Promise.resolve(undefined),
    stop,
  };
}
