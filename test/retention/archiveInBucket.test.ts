/** A bucket that is away, refuses, throttles or keeps half: nothing is trimmed, nothing lost. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { archivedJournal } from "../../core/retention/archivedJournal.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { S3Store, type S3StoreOptions } from "../../services/archive/S3Store.ts";
import { SegmentArchive } from "../../services/archive/SegmentArchive.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { keepHalf, KEY, refusal, startS3, type S3Fault, type S3Server } from "../kit/s3Server.ts";
import { pollUntil } from "../kit/poll.ts";
import { ID, Journaled } from "./Journaled.ts";
import { retentionOf, stopped } from "./walker.ts";
import { collect } from "../kit/collect.ts";

let server: S3Server;
beforeEach(async () => {
  server = await startS3();
});
afterEach(() => server.stop());

/** Closed: nobody answers there. */
async function freePort(): Promise<number> {
  const listening = createServer();
  await new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));
  const { port } = listening.address() as AddressInfo;
  await new Promise((resolve) => listening.close(resolve));
  return port;
}

/** In place of the minute that a request may take. */
const ABORTED_MS = 200;

interface Fault {
  /** What `/readyz` has to say of it. */
  readonly told: RegExp;
  readonly options?: () => Promise<Partial<S3StoreOptions>> | Partial<S3StoreOptions>;
  readonly answers?: () => S3Fault;
}

const elsewhere = { "x-amz-bucket-region": "eu-central-1" };
const FAULTS: Readonly<Record<string, Fault>> = {
  "a server that is away": {
    options: async () => ({ client: { endpoint: `http://127.0.0.1:${await freePort()}` } }),
    told: /ECONNREFUSED/,
  },
  "a bucket that is not there": {
    options: () => ({ bucket: "another" }),
    told: /NoSuchBucket \(404\).*Create the bucket another/,
  },
  "a key that nobody knows": {
    options: () => ({ client: { credentials: { ...KEY, accessKeyId: "other" } } }),
    told: /InvalidAccessKeyId \(403\).*Correct AWS_ACCESS_KEY_ID/,
  },
  "a wrong secret": {
    options: () => ({ client: { credentials: { ...KEY, secretAccessKey: "other" } } }),
    told: /SignatureDoesNotMatch \(403\).*Correct AWS_ACCESS_KEY_ID/,
  },
  "a key without the right": {
    answers: () => refusal(403, "AccessDenied"),
    told: /AccessDenied \(403\).*Allow s3:GetObject and s3:PutObject .* archive, and s3:ListBucket/,
  },
  "the wrong region": {
    answers: () => refusal(301, "PermanentRedirect", elsewhere),
    told: /PermanentRedirect \(301\).*in eu-central-1: set AWS_REGION=eu-central-1/,
  },
  "the wrong region of a signature": {
    answers: () => refusal(400, "AuthorizationHeaderMalformed", elsewhere),
    told: /AuthorizationHeaderMalformed \(400\).*set AWS_REGION=eu-central-1/,
  },
  "a throttled bucket": {
    answers: () => refusal(503, "SlowDown"),
    told: /SlowDown \(503\).*retried automatically/,
  },
  "half of an object, and no answer": {
    answers: () => keepHalf(server, "no answer"),
    told: /ECONNRESET|socket hang up|TimeoutError/,
  },
  "half of an object, said to be whole": {
    answers: () => keepHalf(server, "says so"),
    told: /index\.json in s3:\/\/archive\/agents differs from what was stored/,
  },
};

const storeWith = ({ bucket, client }: Partial<S3StoreOptions>): S3Store =>
  new S3Store({
    bucket: bucket ?? server.bucket,
    prefix: "agents",
    client: {
      endpoint: server.endpoint,
      region: "us-east-1",
      credentials: KEY,
      forcePathStyle: true,
      ...client,
    },
  });

test.each(Object.entries(FAULTS))(
  "%s: nothing is lost, it is reported, and trimming waits until it is repaired",
  async (_name, { told, options, answers }) => {
    const agent = await Journaled.open();
    await agent.write(10);
    const all = agent.broker.journal.eventsOf(ID).slice();
    const mended = storeWith({});
    let store = storeWith((await options?.()) ?? {});
    server.fault = answers?.();
    const archive = new SegmentArchive({
      store: {
        name: mended.name,
        put: (...given) => store.put(...given),
        get: (...given) => store.get(...given),
        list: (...given) => store.list(...given),
      },
      namespace: "agents",
      time: machineTime,
    });
    const { retention, metrics, log, readiness } = retentionOf(agent, archive);
    /** The server answers in real time, walks begin in virtual time. */
    const until = (what: string, check: () => boolean) =>
      pollUntil(what, async () => {
        await agent.time.advance(5_000);
        return check() || { done: false, saw: [readiness(), log.lines.at(-1)] };
      });
    retention.start();
    await until("that it is told", () => !readiness().ready);
    expect(readiness()).toMatchObject({
      ready: false,
      reason: expect.stringMatching(told) as string,
    });
    expect(JSON.stringify(readiness())).toContain("history: nothing is trimmed, and nothing is lost, while "); // prettier-ignore
    expect(log.lines.find(({ level }) => level === "warn")?.fields).toMatchObject({ error: expect.stringMatching(told) as string }); // prettier-ignore
    expect(await metrics.render()).toMatch(/agents_archive_failures_total [1-9]/);
    expect(agent.broker.journal.eventsOf(ID)).toEqual(all);

    store = mended;
    server.fault = undefined;
    await until("the trim", () => readiness().ready === true && agent.seqs.length === 3);
    const whole = archivedJournal({ ...agent.ports, archive });
    expect(await collect(whole.read(ID, { fromSeq: 1 as Sequence }))).toEqual(all);
    await stopped(agent, retention);
  },
);

test.each([false, true])(
  "a server that never answers is named (it begins to: %s)",
  async (begins) => {
    const store = storeWith({});
    await store.put("a", new Uint8Array(100));
    server.fault = (_request, response) => {
      if (begins) response.writeHead(200, { "content-length": "100" }).write("half");
    };
    const limit = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(), ABORTED_MS);
      return controller.signal;
    });
    try {
      await expect(store.get("a")).rejects.toThrow(/^TimeoutError: no whole answer within 60 s$/);
    } finally {
      limit.mockRestore();
    }
  },
);

test("all pages of a bucket's list are read, each by the previous one's token", async () => {
  const tokens: Array<string | null> = [];
  // The server's own pages need a cipher that Node has no longer.
  server.fault = (request, response) => {
    const token = new URL(request.url!, "http://s3").searchParams.get("continuation-token");
    const page = tokens.push(token);
    const more = page < 3 ? `<NextContinuationToken>to+${page}</NextContinuationToken>` : "";
    response.writeHead(200, { "content-type": "application/xml" });
    response.end(
      `<ListBucketResult><IsTruncated>${page < 3}</IsTruncated>${more}<Contents><Key>agents/Book/${page}</Key></Contents></ListBucketResult>`,
    );
  };
  expect(await collect(storeWith({}).list("Book/"))).toEqual(["Book/1", "Book/2", "Book/3"]);
  expect(tokens).toEqual([null, "to+1", "to+2"]);
});
