/**
 * Before any test: one nats-server binary for all workers, found (or fetched) once and outside of
 * any test's time limit.
 */
import { Effect } from "effect";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";

export default async function setup(): Promise<void> {
  const found = await Effect.runPromise(
    findNatsServer({ onProgress: (line) => console.log(line) }),
  );
  process.env["NATS_SERVER"] = found.path;
  console.log(`nats-server ${found.version} from ${found.source}`);
}
