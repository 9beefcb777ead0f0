/** A broker that can't be reached: what to check, against real servers and by Node's codes. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { errors } from "@nats-io/nats-core";
import { expect, test } from "vitest";
import { Subjects } from "../../schemas/Subjects.ts";
import { pickPort } from "../../services/natsServer/pickPort.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { openConnection } from "../../services/nats/client/NatsConnection.ts";
import { whyUnreachable } from "../../services/nats/client/whyUnreachable.ts";
import { makeCertificates } from "../deploy/makeCertificates.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const coded = (code: string) => Object.assign(new Error("of Node"), { code });

test.each([
  [new errors.AuthorizationError("denied"), true, "check the user and the password"],
  [coded("UNABLE_TO_VERIFY_LEAF_SIGNATURE"), true, "--nats-ca (NATS_CA)"],
  [coded("DEPTH_ZERO_SELF_SIGNED_CERT"), true, "--nats-ca (NATS_CA)"],
  [coded("CERT_HAS_EXPIRED"), true, "renew the server's certificate"],
  [new errors.TimeoutError(), true, "--nats-cert and --nats-key"],
  [new errors.ConnectionError("refused"), false, "is nats-server running there?"],
])("%s", (error, tls, remedy) => {
  expect(whyUnreachable("one:4222", error, tls)).toContain(remedy);
});

test("a server without TLS that a tls:// URL names is asked for TLS, not whether it runs", async () => {
  const server = await startNats();
  try {
    const servers = server.url.replace("nats://", "tls://");
    const opened = openConnection({ servers, connectTimeoutMs: 1 }, () => undefined);
    await expect(opened).rejects.toThrow(
      /server does not support 'tls'.*running there, with TLS\?/,
    );
  } finally {
    await server.stop();
  }
});

test("a server that does not answer is logged once while the first connection is attempted", async () => {
  const port = await pickPort();
  const lines: string[] = [];
  const opened = openConnection(
    { servers: `127.0.0.1:${port}`, connectTimeoutMs: 4_000 },
    (level, message) => void lines.push(`${level}: ${message}`),
  );
  await expect(opened).rejects.toThrow("is nats-server running there?");
  expect(lines).toEqual(["warn: the broker can't be reached yet"]);
});

test("a server without JetStream is told from one that is away, whatever the command", async () => {
  const server = await startNats({ configExtra: "jetstream: disabled" });
  const connection = await openConnection({ servers: server.url }, () => undefined);
  try {
    const options = { provision: {} };
    for (const more of [{}, options])
      await expect(openNats(connection, new Subjects(), more)).rejects.toThrow(
        /is JetStream enabled there\? \(nats-server -js/,
      );
  } finally {
    await connection.close();
    await server.stop();
  }
});

test("a server that shows a certificate of another authority when it is back: the log says so", async () => {
  const folder = tempFolder("certificates");
  const { ca: caFile, cert, key } = makeCertificates(folder.path);
  const configExtra = `tls { cert_file: "${cert}", key_file: "${key}" }`;
  const server = await startNats({ configExtra });
  const whys: unknown[] = [];
  const connection = await openConnection(
    { servers: server.url.replace("nats://", "tls://"), caFile },
    (_level, message, fields) => {
      if (message === "the broker can't be reached") whys.push((fields as { why: unknown }).why);
    },
  );
  try {
    const other = makeCertificates(join(folder.path, "other"));
    copyFileSync(other.cert, cert);
    copyFileSync(other.key, key);
    await server.restart();
    await pollUntil("the reason", () => whys.length > 0);
    expect(whys[0]).toContain("specify the certificate of the server's authority");
  } finally {
    await connection.close();
    await server.stop();
    folder.remove();
  }
});
