/**
 * Finds a nats-server binary that is new enough, so that nobody has to install one first. Owns the
 * order of the search and the error that lists what was tried.
 */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { Data, Effect } from "effect";
import { runProgram } from "./runProgram.ts";
import { isNewEnough, NEEDED_VERSION_TEXT, parseVersion, versionText } from "./ServerVersion.ts";

export interface FoundServer {
  readonly path: string;
  readonly version: string;
  readonly source: string;
}

export class NatsServerNotFound extends Data.TaggedError("NatsServerNotFound")<{
  readonly message: string;
}> {}

export const findNatsServer = (
  env: NodeJS.ProcessEnv,
): Effect.Effect<FoundServer, NatsServerNotFound> =>
  Effect.tryPromise({
    try: async () => {
      const given = env["NATS_SERVER"];
      const candidates =
        given !== undefined && given !== ""
          ? [given]
          : (env["PATH"] ?? "").split(delimiter).map((folder) => join(folder, "nats-server"));
      for (const path of candidates) {
        try {
          accessSync(path, constants.X_OK);
        } catch {
          continue; // not there: the next one
        }
        const end = await runProgram(path, ["--version"], { timeoutMs: 5000 });
        const version = end.kind === "exited" ? parseVersion(end.stdout) : undefined;
        if (version !== undefined && isNewEnough(version))
          return { path, version: versionText(version), source: "found" };
      }
      throw new Error(`no nats-server found (needed: ${NEEDED_VERSION_TEXT})`);
    },
    catch: (cause) => new NatsServerNotFound({ message: String(cause) }),
  });
