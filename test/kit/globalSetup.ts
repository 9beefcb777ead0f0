/**
 * Before any test: one nats-server binary for all workers, outside of tests' time limits, and one
 * folder for their temporary ones. After all: that folder goes, with what workers left in it, since
 * they are killed and no `exit` listener of theirs runs.
 */
import { Effect } from "effect";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";
import { PARENT_FOLDER, tempFolder } from "./tempFolder.ts";

export default async function setup(): Promise<() => void> {
  const found = await Effect.runPromise(
    findNatsServer({ onProgress: (line) => console.log(line) }),
  );
  process.env["NATS_SERVER"] = found.path;
  console.log(`nats-server ${found.version} from ${found.source}`);
  const folder = tempFolder("tests");
  process.env[PARENT_FOLDER] = folder.path;
  return folder.remove;
}
