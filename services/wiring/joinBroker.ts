/**
 * Opens the broker of a serving process: the configured one, or an embedded nats-server as a
 * child process (`dev`). It is a separate file with few imports, so that the server starts while
 * the rest of the process is still being loaded.
 *
 * `main.ts` calls it first of all. `joinProcess` connects to the result, and stops it last.
 */
import { join } from "node:path";
import * as Effect from "effect/Effect";
import { Log } from "../../core/telemetry/Log.ts";
import { findNatsServer } from "../natsServer/findNatsServer.ts";
import { startNatsServer } from "../natsServer/NatsServer.ts";
import { brokerUrls } from "../node/brokerUrls.ts";
import { openScoped } from "./openScoped.ts";
import type { BrokerSettings } from "./ProcessSettings.ts";
import type { OpenBroker } from "./Joins.ts";

/**
 * Rejects with a tagged error whose message is for people. `signal` ends a search, a download or a
 * start that is under way; the promise then rejects.
 */
export async function openBroker(
  settings: BrokerSettings,
  signal?: AbortSignal,
): Promise<OpenBroker> {
  const { natsUrl } = settings;
  if (natsUrl !== undefined)
    return { url: natsUrl, summary: summaryOf(natsUrl), stop: async () => undefined };
  const { opened, close } = await openScoped(startOwn(settings), signal);
  return { ...opened, stop: close };
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

/** Scheme, host and port of each URL: what is left out can be a user, a password or a token. */
function summaryOf(urls: string): string {
  return brokerUrls(urls)
    .map(({ protocol, host }) => `${protocol}//${host}`)
    .join(",");
}
