/**
 * The broker of a serving process: the one that was named, or a nats-server of our own as a child process (`dev`).
 * A file of its own, with little to import: the server comes up while the rest of the process is still being loaded.
 *
 * `main.ts` calls it before anything else of a start; `joinProcess` connects to what it gives, and stops it last.
 */
import { join } from "node:path";
import * as Effect from "effect/Effect";
import * as Exit from "effect/Exit";
import * as Scope from "effect/Scope";
import { Log } from "../../core/telemetry/Log.ts";
import { findNatsServer } from "../natsServer/findNatsServer.ts";
import { startNatsServer } from "../natsServer/NatsServer.ts";
import type { BrokerSettings } from "./Joins.ts";

export interface OpenBroker {
  readonly url: string;
  /** For people. */
  readonly summary: string;
  /** Ends a server of our own in order; one that was named is left alone. */
  readonly stop: () => Promise<void>;
}

/** Rejects with a tagged error whose message is for people. */
export async function openBroker(settings: BrokerSettings): Promise<OpenBroker> {
  const { natsUrl } = settings;
  if (natsUrl !== undefined)
    return { url: natsUrl, summary: withoutSecrets(natsUrl), stop: async () => undefined };
  const scope = Effect.runSync(Scope.make());
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void));
  try {
    return { ...(await Effect.runPromise(Scope.provide(startOwn(settings), scope))), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

const startOwn = ({ dataFolder, log, progress }: BrokerSettings) =>
  Effect.gen(function* () {
    const found = yield* findNatsServer({ onProgress: progress });
    const server = yield* startNatsServer({
      binary: found.path,
      folder: join(dataFolder, "nats"),
    }).pipe(Effect.provideService(Log, log));
    return {
      url: server.url,
      summary: `${server.url} (nats-server ${found.version} from ${found.source}, stopped with this process; writes to disk every two minutes)`,
    };
  });

/** A URL as it may be shown: without user, password or token. */
const withoutSecrets = (url: string): string => url.replace(/\/\/[^@/,]*@/g, "//");
