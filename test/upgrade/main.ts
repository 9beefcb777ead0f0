/**
 * `npm run upgrade [-- --from <commit>] [--per-second <n>]`: a rolling upgrade between two packed
 * releases over one nats-server, under webhooks and with all that an installation stores, and the
 * way back; then a release that can't read what a newer one has stored. Exit code 1 when a rule did
 * not hold.
 *
 * 1. Hosts are replaced before gateways, one at a time, a new one first; on the way back gateways
 *    before hosts (`docs/operations/upgrades.md`).
 * 2. No webhook fails; each is done exactly once, by the journals and by the agents; epochs never
 *    go back.
 * 3. A process that is refused claims nothing, and costs nobody a webhook.
 *
 * What is stored has rules of its own: `Keepers`, `Deeds`, `Letters`, `Readers`, `Quarantined`,
 * `Trimmed`.
 */
import { parseArgs } from "node:util";
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { agentId } from "../../schemas/Address.ts";
import { STORED_FORMATS } from "../../schemas/StoredFormats.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { FORMATS_KEY } from "../../services/nats/layout/streamConfigs.ts";
import { checkEpochs, checkExactlyOnce, historyOf } from "../kit/checkers.ts";
import { Sink } from "../email/kit.ts";
import { runAgents } from "../kit/runAgents.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { getState } from "../membership/Callers.ts";
import { Fleet, type Release } from "../membership/Fleet.ts";
import { explain, latencies, Webhooks } from "../membership/Webhooks.ts";
import { Deeds, startSlowWorld } from "./Deeds.ts";
import { Keepers } from "./Keepers.ts";
import { Letters } from "./Letters.ts";
import { packRelease } from "./packRelease.ts";
import { Quarantined } from "./Quarantined.ts";
import { Readers } from "./Readers.ts";
import { hasPart, type Part } from "./runRelease.ts";
import { Trimmed } from "./Trimmed.ts";

/**
 * The last commit of the release before this one whose streams are the same: those before it can't
 * be upgraded while they run (CHANGELOG.md). And one that has every part of this one.
 */
const FROM_DEFAULT = [
  "ab359b21947497967d98c0b5a0c1117c6b135fc6",
  "f4a31bfd3a44778eda530464c9d87b9608f51d30",
];
const PER_SECOND_DEFAULT = "25";
const AGENTS = Array.from({ length: 50 }, (_, n) => `agent-${n}`);
const HOSTS = 2;
const GATEWAYS = 2;
/** How long webhooks go to processes of both releases, each way, before and after. */
const MIXED_MS = 5_000;

const { values } = parseArgs({
  options: {
    from: { type: "string", multiple: true, default: FROM_DEFAULT },
    "per-second": { type: "string", default: PER_SECOND_DEFAULT },
  },
});

const temp = tempFolder("upgrade");
const wrong: string[] = [];
/** Webhooks of the present upgrade. */
const all: Webhooks[] = [];
const say = (line: string): void => console.log(line);
const after = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function under(fleet: Fleet, name: string, act: () => Promise<void>): Promise<void> {
  const load = new Webhooks({ url: fleet.url, agents: AGENTS, perSecond: Number(values["per-second"]) }); // prettier-ignore
  all.push(load);
  await after(MIXED_MS);
  await act();
  await after(MIXED_MS);
  await load.stop();
  const { "p50 ms": p50, "p99 ms": p99, "most ms": most } = latencies(load.sent);
  const round = (ms: number | undefined): string => (ms ?? NaN).toFixed(0);
  say(
    `${name}: ${load.sent.length} webhooks, ${load.failed.length} failed; p50 ${round(p50)} ms, p99 ${round(p99)} ms, at most ${round(most)} ms`,
  );
  if (load.failed.length > 0) wrong.push(`${name}: ${explain(load.failed)}`);
}

/** Rule 1. */
async function replaceHosts(fleet: Fleet): Promise<void> {
  for (const old of fleet.hosts.slice()) {
    const host = await fleet.addHost();
    await host.ready();
    await fleet.fair();
    await fleet.stopMember(old);
    await fleet.fair();
  }
}

/** Those of mail, too. */
async function replaceGateways(fleet: Fleet, letters: Letters): Promise<void> {
  await letters.replaceServer();
  for (const old of fleet.gateways.slice()) {
    await fleet.addGateway();
    await fleet.stopMember(old);
  }
}

/** Rule 2. */
async function checkAll(fleet: Fleet): Promise<void> {
  const inputs = all.flatMap((load) => load.inputs);
  for (const name of AGENTS) {
    const history = await historyOf(fleet.inspector.journal, agentId("Member", name));
    const own = inputs.filter(({ agent }) => agent === name);
    wrong.push(...checkExactlyOnce(own, [history]), ...checkEpochs(history));
    const { count } = await getState<{ readonly count: number }>(fleet.url, name);
    if (count !== own.length) wrong.push(`${name} counts ${count} of ${own.length} webhooks`);
  }
}

/** Rule 3: what a later release's `agents provision` does, and then a host of this one. */
async function refuseOlder(fleet: Fleet): Promise<void> {
  const connection = await connect({ servers: fleet.nats.url });
  const { streams } = await jetstreamManager(connection);
  const inbox = new Subjects().stream.inbox;
  const { config } = await streams.info(inbox);
  await streams.update(inbox, {
    metadata: { ...config.metadata, [FORMATS_KEY]: String(STORED_FORMATS + 1) },
  });
  await connection.close();
  const watch = new AbortController();
  const hosts = new Set((await fleet.owners()).values());
  const changes = await fleet.changes(watch.signal);
  const said = await fleet.addHost().then(
    () => "it serves",
    (error: unknown) => String(error),
  );
  if (!said.includes("a newer release has upgraded")) wrong.push(`a host of this release: ${said}`);
  const owners = [...changes.map(({ owner }) => owner), ...(await fleet.owners()).values()];
  watch.abort();
  // Only what a new host holds counts: a slow machine may cost another one its lease.
  if (owners.some((owner) => owner !== undefined && !hosts.has(owner)))
    wrong.push("the host that was refused claimed shards");
}

/** `from`: the commit of `older`. */
async function upgrade(from: string, older: Release, newer: Release): Promise<void> {
  const world = await startSlowWorld();
  const relay = await Sink.open();
  const env = { WORLD: world.url, SMTP_URL: relay.url };
  const fleet = await Fleet.start({ shards: 16, leaseTtlMs: 5_000, gateways: GATEWAYS, release: older, env }); // prettier-ignore
  const become = (release: Release): void => void (fleet.release = release);
  const only = <A>(part: Part, make: () => A): A | undefined => {
    if (hasPart(from, part)) return make();
    say(`the older release has no ${part}: left out`);
    return undefined;
  };
  all.length = 0;
  const keepers = new Keepers(fleet.url);
  const letters = new Letters(fleet, relay);
  const deeds = only("step", () => {
    const ways = only("durableCall", () => ["queue", "call"] as const) ?? (["queue"] as const);
    return new Deeds(fleet.url, world, ways);
  });
  const readers = only("stream", () => new Readers(fleet.url));
  const quarantined = only("quarantine", () => new Quarantined(fleet, newer));
  const trimmed = only("retention", () => new Trimmed(fleet));
  const note = (found: ReadonlyArray<string> = []): void => void wrong.push(...found);
  const store = async (round: string): Promise<void> => {
    await keepers.arm(round);
    await deeds?.begin(round);
    await readers?.begin(round);
    await trimmed?.begin();
  };
  const replaceHostsUnderSockets = async (): Promise<void> =>
    note(await keepers.keepSockets(() => replaceHosts(fleet)));
  try {
    await quarantined?.begin();
    for (let n = 0; n < HOSTS; n++) await fleet.addHost();
    await fleet.fair();
    await letters.replaceServer();
    await under(fleet, "the older release", () => after(MIXED_MS));
    const provisioned = await runAgents(["provision"], { NATS_URL: fleet.nats.url });
    if (provisioned.code !== 0) throw new Error(provisioned.err);
    await store("there");
    become(newer);
    await under(fleet, "hosts to the newer", replaceHostsUnderSockets);
    await under(fleet, "gateways to the newer", () => replaceGateways(fleet, letters));
    await deeds?.decide("there");
    await trimmed?.end();
    note(await quarantined?.check("on the newer release"));
    await checkAll(fleet);
    await store("back");
    become(older);
    await under(fleet, "gateways back", () => replaceGateways(fleet, letters));
    await under(fleet, "hosts back", replaceHostsUnderSockets);
    note(await quarantined?.check("back on the older release"));
    note(await quarantined?.release());
    await deeds?.decide("back");
    await checkAll(fleet);
    note(await letters.check());
    note(await deeds?.check());
    note(await keepers.check(fleet));
    note(await readers?.check());
    await trimmed?.end();
    for (const release of [older, newer]) note(await trimmed?.check(release));
    become(newer);
    await under(fleet, "a host that can't read the formats", () => refuseOlder(fleet));
    await checkAll(fleet);
    say(fleet.complaints());
  } finally {
    keepers.close();
    readers?.close();
    trimmed?.close();
    deeds?.close();
    await fleet.stop();
    await relay.close();
    await world.stop();
  }
}

try {
  say("packing what is built here");
  const newer = packRelease("newer", `${temp.path}/here`, undefined);
  for (const from of values.from) {
    say(`packing ${from}`);
    const older = packRelease("older", `${temp.path}/${from}`, from);
    await upgrade(from, older, newer);
  }
} catch (error) {
  wrong.push(error instanceof Error ? error.message : String(error));
} finally {
  temp.remove();
}
for (const line of wrong.slice(0, 20)) console.error(`wrong: ${line}`);
say(wrong.length === 0 ? "nothing was lost or done twice" : `${wrong.length} things are wrong`);
process.exitCode = wrong.length === 0 ? 0 : 1;
