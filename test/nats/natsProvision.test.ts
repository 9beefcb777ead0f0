/** Provisioning, and what of it other NATS tools can read. */
import { jetstream } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import { Effect, Layer } from "effect";
import { describe, expect, it } from "vitest";
import { Bus } from "../../core/bus/Bus.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { agentId, type Sequence, type ShardId } from "../../schemas/Address.ts";
import { STORED_FORMATS } from "../../schemas/StoredFormats.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { headers } from "../../services/nats/client/ReplyInbox.ts";
import { Nats, type NatsShape } from "../../services/nats/client/Nats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { natsLayer } from "../../services/nats/natsLayer.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import {
  provision,
  raiseFormats,
  type ProvisionOptions,
} from "../../services/nats/setup/provision.ts";
import { processLog } from "../../services/node/ProcessLog.ts";
import { collect } from "../kit/collect.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { LARGE_BYTES, message, patient } from "../conformance/Backend.ts";
import { useNats } from "./useNats.ts";

const log = processLog();

describe("provisioning", () => {
  const used = useNats();
  let namespaces = 0;
  const newNamespace = (): Subjects => new Subjects(`ns${++namespaces}`);
  const open = (subjects: Subjects, options: ProvisionOptions = {}): Promise<NatsShape> =>
    used.open(subjects, options);

  it("refuses to open what was never provisioned, and says what to do", async () => {
    await expect(used.open(newNamespace())).rejects.toMatchObject({
      _tag: "NotProvisioned",
      message: expect.stringContaining("agents provision") as unknown,
    });
  });

  it.each([
    ["2.10.27", true],
    ["2.14.3", true],
    ["2.14.4", false],
    ["main-a1b2c3", false],
  ])(
    "a broker of version %s is refused before anything is created there: %s",
    async (version, isRefused) => {
      const subjects = newNamespace();
      const connection = await used.connect();
      const client = new Proxy(connection.client, {
        get: (to, key) => (key === "info" ? { ...to.info, version } : Reflect.get(to, key, to)),
      });
      const opened = openNats({ ...connection, client }, subjects, { provision: {} }).then(
        () => "",
      );
      if (!isRefused) return expect(await opened).toBe("");
      await expect(opened).rejects.toMatchObject({
        _tag: "ServerTooOld",
        message: expect.stringMatching(
          `nats-server ${version}, too old .*2\\.14\\.4 or newer`,
        ) as unknown,
      });
      await expect(used.open(subjects)).rejects.toMatchObject({ _tag: "NotProvisioned" });
    },
  );

  it("yields the same installation when concurrent and repeated", async () => {
    const subjects = newNamespace();
    const all = await Promise.all(Array.from({ length: 6 }, () => open(subjects, { shards: 8 })));
    expect(all.map((nats) => nats.shards)).toEqual([8, 8, 8, 8, 8, 8]);
    expect(await open(subjects)).toMatchObject({ shards: 8, leaseTtlMs: 5_000 });
    expect(await used.open(subjects)).toMatchObject({ shards: 8 });
  });

  it("refuses a different number of shards, and names both", async () => {
    const subjects = newNamespace();
    await open(subjects, { shards: 16 });
    await expect(open(subjects, { shards: 32 })).rejects.toMatchObject({
      _tag: "ShardCountMismatch",
      provisioned: 16,
      requested: 32,
    });
    await expect(open(newNamespace(), { shards: 0 })).rejects.toBeInstanceOf(RangeError);
  });

  it("refuses an installation of newer formats, to open or to provision, and changes nothing there", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects, { shards: 8 });
    await raiseFormats(nats.api, nats.subjects, STORED_FORMATS);
    expect(await used.open(subjects)).toMatchObject({ shards: 8 });
    await raiseFormats(nats.api, nats.subjects, STORED_FORMATS + 1);
    const config = () => nats.api.call(`STREAM.INFO.${subjects.stream.inbox}`);
    const { config: before } = (await config()) as { readonly config: unknown };
    expect(before).toMatchObject({ metadata: { "agents.shards": "8" } });
    const refusal = {
      _tag: "NewerInstallation",
      message: expect.stringMatching(/have version 2, and this release reads up to 1\./) as unknown,
    };
    await expect(used.open(subjects)).rejects.toMatchObject(refusal);
    await expect(open(subjects, { leaseTtlMs: 9_000 })).rejects.toMatchObject(refusal);
    await raiseFormats(nats.api, nats.subjects, STORED_FORMATS);
    expect(await config()).toMatchObject({ config: before as object });
  });

  it("creates lost leases again with later epochs than those of the journals", async () => {
    const subjects = newNamespace();
    const claim = async (nats: NatsShape) => {
      const claimed = await makeNatsLeases(nats).claim("shard.0", "host-a");
      return claimed._tag === "Claimed" ? claimed.lease.epoch : 0;
    };
    const nats = await open(subjects);
    for (let n = 0; n < 5; n++) await nats.publisher.publish(`$KV.${subjects.bucket.leases}.host.${n}`, new Uint8Array(0)); // prettier-ignore
    const before = await claim(nats);
    expect(before).toBe(6);
    await nats.api.call(`STREAM.DELETE.KV_${subjects.bucket.leases}`);
    expect(await claim(await open(subjects))).toBeGreaterThan(before);
    expect(await open(subjects, { leaseTtlMs: 9_000 })).toMatchObject({ leaseTtlMs: 9_000 });
  });

  it("changes the leases' TTL only on request", async () => {
    const subjects = newNamespace();
    expect((await open(subjects, { leaseTtlMs: 3_000 })).leaseTtlMs).toBe(3_000);
    expect((await open(subjects)).leaseTtlMs).toBe(3_000);
    expect((await open(subjects, { leaseTtlMs: 2_000 })).leaseTtlMs).toBe(2_000);
  });

  it("creates the bucket of gateways' leases, with its TTL, for an older installation", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects, { leaseTtlMs: 3_000 });
    const gateways = `KV_${subjects.bucket.gateways}`;
    await nats.api.call(`STREAM.DELETE.${gateways}`);
    await open(subjects);
    type Info = { config: Record<string, unknown> };
    const [found, leases] = await Promise.all(
      [gateways, `KV_${subjects.bucket.leases}`].map(
        async (stream) => (await nats.api.call<Info>(`STREAM.INFO.${stream}`)).config,
      ),
    );
    const { name: _name, subjects: taken, ...settings } = found!;
    expect(taken).toEqual([`$KV.${subjects.bucket.gateways}.>`]);
    expect(settings["max_age"]).toBe(3_000_000_000);
    expect(leases).toMatchObject(settings);
    expect((await open(subjects, { leaseTtlMs: 2_000 })).leaseTtlMs).toBe(2_000);
    const { config } = await nats.api.call<Info>(`STREAM.INFO.${gateways}`);
    expect(config["max_age"]).toBe(2_000_000_000);
  });

  it("removes a limit by which the inbox, timers or journal would drop what was stored", async () => {
    const nats = await open(newNamespace(), { shards: 2 });
    const { inbox, timers, journal } = nats.subjects.stream;
    const edit = async (name: string, limit: object): Promise<void> => {
      const { config } = await nats.api.call<{ config: object }>(`STREAM.INFO.${name}`);
      await nats.api.call(`STREAM.UPDATE.${name}`, { ...config, ...limit });
    };
    const hour = 3_600_000_000_000;
    for (const name of [inbox, timers, journal]) await edit(name, { max_age: hour });
    await edit(timers, { max_age: hour, max_msgs: 10, max_bytes: 1_000_000 });
    await open(nats.subjects);
    for (const name of [inbox, timers, journal]) {
      const { config } = await nats.api.call<{ config: object }>(`STREAM.INFO.${name}`);
      expect(config).toMatchObject({ max_age: 0, max_msgs: -1, max_bytes: -1 });
    }
  });

  it("restores the settings of a changed stream, and keeps an operator's limit", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects);
    type Info = { config: Record<string, unknown> };
    const config = async (stream: string) =>
      (await nats.api.call<Info>(`STREAM.INFO.${stream}`)).config;
    const { snapshots } = subjects.stream;
    await nats.api.call(`STREAM.UPDATE.${snapshots}`, {
      ...(await config(snapshots)),
      max_msgs_per_subject: 7,
      max_bytes: 1_000_000,
    });
    await provision(nats, subjects);
    expect(await config(snapshots)).toMatchObject({
      max_msgs_per_subject: 2,
      max_bytes: 1_000_000,
    });
  });

  it("keeps two namespaces apart on one broker", async () => {
    const [one, two] = [await open(newNamespace()), await open(newNamespace())];
    const inboxes = [one, two].map((nats) => makeNatsInbox(nats, makeNatsBlobs(nats)));
    await inboxes[0]?.publish(agentId("A", "x"), message("1"), { signal: patient() });
    expect(await inboxes[0]?.depth()).toBe(1);
    expect(await inboxes[1]?.depth()).toBe(0);
  });

  it("keeps timers in their own stream: they become inputs when they fire", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects, { shards: 1 });
    const inbox = makeNatsInbox(nats, makeNatsBlobs(nats));
    const id = agentId("A", "timed");
    const shard = 0 as ShardId;
    const schedule = (delayMs: number) =>
      nats.publisher.publish(subjects.timer(shard, id, "t1"), message("due"), {
        headers: headers(
          ["Nats-Schedule", `@at ${new Date(Date.now() + delayMs).toISOString()}`],
          ["Nats-Schedule-Target", subjects.due(shard, id)],
        ),
      });
    expect(await schedule(60_000)).toMatchObject({ _tag: "Stored" });
    expect(await inbox.depth()).toBe(0);
    expect(await schedule(300)).toMatchObject({ _tag: "Stored" }); // replaces it
    let deliveries = 0;
    const consumer = await inbox.consume(shard, (d) => {
      deliveries++;
      d.ack();
    });
    await pollUntil("the timer", () => deliveries === 1);
    await consumer.stop();
    expect(await inbox.depth()).toBe(0);
  });

  it("stores blobs and leases as the NATS tools' own object store and key-value bucket", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects);
    const data = message("tool", LARGE_BYTES);
    await makeNatsBlobs(nats).put("journal/A/=C3=BC/1", data);
    const store = await new Objm(jetstream(nats.connection.client)).open(subjects.bucket.blobs);
    const found = await store.getBlob("journal/A/=C3=BC/1");
    expect(Buffer.compare(found ?? new Uint8Array(0), data)).toBe(0);
    await store.putBlob({ name: "by a tool" }, data);
    const read = await makeNatsBlobs(nats).get("by a tool");
    expect(Buffer.compare(read ?? new Uint8Array(0), data)).toBe(0);

    await makeNatsLeases(nats).claim("shard.1", "h1");
    const bucket = await new Kvm(jetstream(nats.connection.client)).open(subjects.bucket.leases);
    expect((await bucket.get("shard.1"))?.string()).toBe("h1");
  });

  it("detects a blob with changed bytes", async () => {
    const subjects = newNamespace();
    const nats = await open(subjects);
    const blobs = makeNatsBlobs(nats);
    await blobs.put("x", message("x", 1_000));
    const [chunk] = await collect(
      nats.reader.messages(`OBJ_${subjects.bucket.blobs}`, `$O.${subjects.bucket.blobs}.C.>`, {
        fromSeq: 1,
      }),
    );
    if (chunk === undefined) throw new Error("no chunk");
    await nats.api.call(`STREAM.PURGE.OBJ_${subjects.bucket.blobs}`, { filter: chunk.subject });
    const flipped = chunk.data.slice();
    flipped[500] = (flipped[500] ?? 0) ^ 1;
    await nats.publisher.publish(chunk.subject, flipped);
    await expect(blobs.get("x")).rejects.toMatchObject({ _tag: "CorruptFrame" });
  });

  it("provides all ports through natsLayer, which closes the connection with its scope", async () => {
    const layer = natsLayer({
      servers: used.server.url,
      namespace: "layered",
      provision: { shards: 4 },
      log,
    });
    const [shards, bus] = await Effect.runPromise(
      Effect.gen(function* () {
        const journal = yield* Journal;
        const options = { expectedSeq: 0 as Sequence, signal: patient() };
        const append = () => journal.append(agentId("A", "x"), message("1"), options);
        expect((yield* Effect.promise(append))._tag).toBe("Stored");
        return [(yield* Nats).shards, yield* Bus] as const;
      }).pipe(Effect.provide(layer)),
    );
    expect(shards).toBe(4);
    expect(bus.connected()).toBe(false);
  });

  it("reports an unreachable broker as BrokerUnavailable, with the address", async () => {
    const layer = natsLayer({ servers: "nats://127.0.0.1:1", connectTimeoutMs: 100, log });
    const failed = await Effect.runPromise(Effect.flip(Layer.build(layer)).pipe(Effect.scoped));
    expect(failed).toMatchObject({
      _tag: "BrokerUnavailable",
      message: expect.stringContaining("127.0.0.1:1") as unknown,
    });
  });

  it("refuses replicas on a single server, and says that they need a cluster", async () => {
    const { path, remove } = tempFolder("replicas");
    const single = await startNats({ storeDir: path });
    try {
      const layer = natsLayer({ servers: single.url, provision: { replicas: 3 }, log });
      const failed = await Effect.runPromise(Effect.flip(Layer.build(layer)).pipe(Effect.scoped));
      const reason = expect.stringMatching(
        /use --replicas 1, or a cluster of nats-servers$/,
      ) as unknown;
      expect(failed).toMatchObject({ _tag: "ProvisioningRefused", message: reason });
    } finally {
      await single.stop();
      remove();
    }
  });

  it("refuses a broker without enough room for its streams, and says how much they need", async () => {
    const { path, remove } = tempFolder("room");
    const limited = `jetstream { store_dir: "${path}", max_file_store: 100MB }`;
    const small = await startNats({ storeDir: path, configExtra: limited });
    try {
      const layer = natsLayer({ servers: small.url, provision: {}, log });
      const failed = await Effect.runPromise(Effect.flip(Layer.build(layer)).pipe(Effect.scoped));
      const reason = expect.stringContaining(
        "the delivery log reserves 576 MiB: free disk space",
      ) as unknown;
      expect(failed).toMatchObject({ _tag: "ProvisioningRefused", message: reason });
    } finally {
      await small.stop();
      remove();
    }
  });

  it.each([
    [
      "a password",
      (port: number) => `nats://joe:p%40ss@127.0.0.1:${port}`,
      `user: joe, password: "p@ss"`,
    ],
    ["a token", (port: number) => `nats://s3cret@127.0.0.1:${port}`, `token: "s3cret"`],
  ])("logs in with %s from the URL", async (_, url, authorization) => {
    const guarded = await startNats({ configExtra: `authorization { ${authorization} }` });
    try {
      const client = await openConnection({ servers: url(guarded.port) }, () => undefined);
      expect(client.connected()).toBe(true);
      await client.close();
    } finally {
      await guarded.stop();
    }
  });
});
