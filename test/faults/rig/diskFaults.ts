/** Disks without room, under a host and a nats-server, where the machine lets us mount a disk. */
import { closeSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { pollUntil } from "../../kit/poll.ts";
import type { Fault } from "./faults.ts";

/** A piece at first, then single pages of the file system, until not one is left. */
const PIECE_BYTES = 1024 * 1024;
const PAGE_BYTES = 4096;
const BITE_TIMEOUT_MS = 30_000;
/** Enough that each host had some of it. */
const SOME = 60;
/** A nats-server that recovers does so by then; else it is started again, as by an operator. */
const RECOVERS_MS = 5_000;

/** Fills the disk; the returned function frees it. */
function fill(disk: string): () => void {
  const path = join(disk, "ballast");
  const file = openSync(path, "w");
  for (const size of [PIECE_BYTES, PAGE_BYTES])
    try {
      for (;;) if (writeSync(file, Buffer.alloc(size)) < size) break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    }
  closeSync(file);
  return () => rmSync(path, { force: true });
}

/** A host's disk has only caches: it continues without, but does not start, for its lock. */
const hostDiskFull: Fault = async (world, random) => {
  const { rig, providers } = world;
  const seat = random.pick(rig.hosts);
  const hibernations = () => seat.process.metric("agents_hibernations_total");
  const free = fill(rig.dataOf(seat));
  try {
    const before = await hibernations();
    await providers.more(SOME);
    await pollUntil("agents hibernate without room", async () => (await hibernations()) > before, {
      timeoutMs: BITE_TIMEOUT_MS,
    });
    rig.bites.add("host-disk-full", "hibernations without room", (await hibernations()) - before);
    await seat.process.kill();
    world.hostTroubles++;
    await rig.shared(1);
  } finally {
    free();
  }
  await rig.restart(seat);
  await rig.shared(2);
  await providers.more(SOME);
};

/** Nothing can be stored, so nothing is acknowledged. With room again, it continues. */
const natsDiskFull: Fault = async (world, random) => {
  const { rig, providers } = world;
  const { servers } = rig.broker;
  const { nats, disk, monitorPort } = random.pick(servers);
  const refused = () => providers.held + providers.countOf(503, 0);
  const before = refused();
  world.hostTroubles += rig.hosts.length;
  const free = fill(disk);
  try {
    // One of three may be missed; the only one has to be.
    if (servers.length === 3) await providers.more(SOME);
    else
      await pollUntil(
        "webhooks are held or answered 503 while nothing can be stored",
        () => refused() >= before + SOME / 2 || { done: false, saw: providers.byStatus },
        { timeoutMs: BITE_TIMEOUT_MS },
      );
  } finally {
    free();
  }
  rig.bites.add("nats-disk-full", "503 or held", refused() - before);
  const healthy = (): Promise<boolean> =>
    fetch(`http://127.0.0.1:${monitorPort}/healthz`).then(({ ok }) => ok, () => false); // prettier-ignore
  const disabled = readFileSync(nats.logFile, "utf8").match(/DISABLED/g)?.length ?? 0;
  rig.bites.add("nats-disk-full", "times that JetStream switched itself off", disabled);
  const untilMs = performance.now() + RECOVERS_MS;
  await pollUntil(
    "the server is healthy, or has had its time",
    async () => (await healthy()) || performance.now() > untilMs,
  );
  const accepted = providers.countOf(200, 202);
  const goesOn = await pollUntil("work goes on, or has had its time", () =>
    providers.countOf(200, 202) > accepted + 1
      ? "yes"
      : performance.now() > untilMs + RECOVERS_MS && "no",
  );
  if (!(await healthy()) || goesOn === "no") {
    await nats.restart();
    rig.bites.add("nats-disk-full", "servers started again by hand");
  }
  await rig.broker.healthy();
  await providers.more(SOME);
};

export const DISK_FAULTS: Readonly<Record<string, Fault>> = {
  "host-disk-full": hostDiskFull,
  "nats-disk-full": natsDiskFull,
};
