/** The floor pipeline as a subject, on a broker of its own. */
import { pickPort } from "../../../services/natsServer/pickPort.ts";
import { startNats } from "../../kit/natsServer.ts";
import type { BenchOptions } from "../Bench.ts";
import { ROOT } from "./findFloor.ts";
import { cpuSeconds, ServerProcess } from "./ServerProcess.ts";
import type { Subject } from "./Subject.ts";

export async function startFloor(floor: string, { syncAlways }: BenchOptions): Promise<Subject> {
  const nats = await startNats({ syncAlways });
  const port = await pickPort();
  const server = new ServerProcess({
    name: "floor",
    // It takes its packages from the working directory.
    cwd: ROOT,
    args: [floor, "--raw", "--nats", `127.0.0.1:${nats.port}`, "--port", String(port)],
  });
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
    name: "floor",
    broker: nats.url,
    url: `http://127.0.0.1:${port}`,
    target: { PATH_PREFIX: "/webhooks/acme-" },
    cpuSeconds: () => ({ node: server.cpuSeconds ?? NaN, broker: cpuSeconds(nats.pid) ?? NaN }),
    answers: () => Promise.resolve(undefined),
    stop,
  };
}
