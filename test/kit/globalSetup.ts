/** Before any test: one nats-server binary for all workers, outside of tests' time limits. */
import { Effect } from "effect";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";

export default async function setup(): Promise<void> {
  const found = await Effect.runPromise(
    findNatsServer({ onProgress: (line) => console.log(line) }),
  );
  process.env["NATS_SERVER"] = found.path;
  console.log(`nats-server ${found.version} from ${found.source}`);
}
