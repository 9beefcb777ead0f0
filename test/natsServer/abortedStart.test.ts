/** A nats-server that is being found or started when its process is asked to stop. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { openBroker } from "../../services/wiring/joinBroker.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { pollUntil } from "../kit/poll.ts";
import { collectingLog } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";

afterEach(() => vi.unstubAllEnvs());

test.each([
  ["is looked at", ""],
  ["starts", '[ "$1" = --version ] && echo "nats-server: v9.9.9" && exit'],
])("a server that %s is ended at once when its process stops", async (_, first) => {
  const folder = tempFolder("aborted-start");
  const binary = join(folder.path, "nats-server");
  const pidFile = join(folder.path, "pid");
  const script = `#!/bin/sh\n${first}\necho $$ > ${pidFile}\nexec sleep 600\n`;
  writeFileSync(binary, script, { mode: 0o700 });
  vi.stubEnv("NATS_SERVER", binary);
  const stop = new AbortController();
  const settings = {
    natsUrl: undefined,
    dataFolder: folder.path,
    log: collectingLog(),
    progress: () => {},
    sealed: undefined,
  };
  const opening = openBroker(settings, stop.signal);
  opening.catch(() => undefined);
  const pid = await pollUntil(
    "the server's process",
    () => existsSync(pidFile) && Number(readFileSync(pidFile, "utf8")),
  );
  stop.abort();
  await expect(opening).rejects.toThrow(/interrupt/);
  await pollUntil("its end", () => identityOf(pid) === undefined);
  folder.remove();
});
