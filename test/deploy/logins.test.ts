/** The ways to log in, each against a real server; and the check of a broker's durability. */
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { nkeys } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { startNats } from "../kit/natsServer.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { deployNats, passwordOf, type Deployed } from "./DeployedNats.ts";
import { makeCertificates, tlsVariables, type Certificates } from "./makeCertificates.ts";

const { createAccount, createOperator, createUser } = nkeys;
type KeyPair = ReturnType<typeof createUser>;
const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("../faults/ledgerModule.ts", import.meta.url));
const folder = tempFolder("logins");
const file = (name: string): string => join(folder.path, name);
/** A start that is refused takes as long as its dials are tried (15 s) where the login is wrong. */
const PATIENCE_MS = 40_000;

let nats: Deployed | undefined;
afterEach(async () => {
  await nats?.stop();
  nats = undefined;
});
afterAll(() => folder.remove());

interface Run {
  readonly code: number;
  readonly text: string;
}
const cli = (env: Readonly<Record<string, string>>, ...args: string[]): Promise<Run> =>
  new Promise((resolve) => {
    execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { PATH: process.env["PATH"] ?? "", ...env }, timeout: PATIENCE_MS },
      (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), text: stdout + stderr }),
    );
  });

const seedFile = (name: string, pair: KeyPair): string => {
  writeFileSync(file(name), `# ${name}\n${Buffer.from(pair.getSeed()).toString()}\n`);
  return file(name);
};

describe("logins", () => {
  test(
    "work over TLS with a private authority, and with nkeys whose seeds the server never sees",
    async () => {
      const users = [
        "gateway",
        "host",
        "mail",
        "retention",
        "reader",
        "operator",
        "system",
      ] as const;
      const pairs = Object.fromEntries(users.map((user) => [user, createUser()]));
      const certificates = makeCertificates(join(folder.path, "one"), ["127.0.0.1"]);
      nats = await deployNats({
        config: "single.conf",
        variables: {
          ...tlsVariables(certificates),
          ...Object.fromEntries(
            users.map((user) => [`NATS_${user.toUpperCase()}_NKEY`, pairs[user]!.getPublicKey()]),
          ),
        },
        edit: (text, name) =>
          name === "single.conf"
            ? text
                .replace('include "accounts.conf"', 'include "accounts-nkey.conf"')
                .replace('# include "tls.conf"', 'include "tls.conf"')
            : text,
      });
      const url = `tls://127.0.0.1:${nats.servers[0]!.port}`;
      const nkey = seedFile("operator.nk", pairs["operator"]!);
      const flags = ["--nats", url, "--nats-nkey", nkey, "--nats-ca", certificates.ca];
      expect(await cli({}, "provision", "--shards", "4", ...flags)).toMatchObject({ code: 0 });
      const env = {
        NATS_URL: url,
        NATS_NKEY: seedFile("reader.nk", pairs["reader"]!),
        NATS_CA: certificates.ca,
      };
      expect((await cli(env, "list")).code).toBe(0);
    },
    PATIENCE_MS,
  );

  test(
    "refuse a server that is configured by its address and has a certificate for a name only",
    async () => {
      const certificates = makeCertificates(join(folder.path, "named"), ["localhost"]);
      nats = await deployNats({
        config: "single.conf",
        variables: tlsVariables(certificates),
        edit: (text, name) =>
          name === "single.conf"
            ? text.replace('# include "tls.conf"', 'include "tls.conf"')
            : text,
      });
      const byAddress = nats.url("reader").replaceAll("nats://", "tls://");
      const ca = ["--nats-ca", certificates.ca];
      const refused = await cli({}, "list", "--nats", byAddress, ...ca);
      expect(refused.code).toBe(1);
      expect(refused.text).toContain("IP: 127.0.0.1 is not in the cert's list");
      expect(refused.text).not.toContain("is nats-server running there?");
      const provisioner = nats.url("operator").replace("nats://", "tls://");
      const byName = provisioner.replace("127.0.0.1", "localhost");
      const provisioned = await cli({}, "provision", "--shards", "4", "--nats", byName, ...ca);
      expect(provisioned).toMatchObject({ code: 0 });
    },
    PATIENCE_MS,
  );

  test(
    "require TLS of clients and servers with the shipped cluster files, and keep monitoring local",
    async () => {
      const certificates = makeCertificates(join(folder.path, "three"));
      nats = await deployNats({
        config: "cluster.conf",
        tls: true,
        variables: tlsVariables(certificates),
      });
      const [server] = nats.servers;
      const url = nats.url("operator").replaceAll("nats://", "tls://");
      const flags = ["--nats", url, "--nats-ca", certificates.ca];
      const provisioned = await cli({}, "provision", "--shards", "4", "--replicas", "3", ...flags);
      expect(provisioned).toMatchObject({ code: 0 });
      expect(provisioned.text).toContain("3 copies");
      const foreign = makeCertificates(join(folder.path, "foreign"));
      const login = {
        servers: `127.0.0.1:${server!.port}`,
        user: "operator",
        pass: passwordOf("operator"),
        timeout: 2_000,
      };
      await expect(connect(login)).rejects.toThrow();
      await expect(connect({ ...login, tls: { caFile: foreign.ca } })).rejects.toThrow();
      // A route without a certificate of the authority is closed before its login.
      expect(await speak(server!.routePort, foreign)).toBe("closed");
      expect(await speak(server!.routePort, certificates)).toBe("open");
      for (const { monitorPort } of nats.servers)
        for (const address of otherAddresses())
          await expect(fetch(`http://${address}:${monitorPort}/healthz`)).rejects.toThrow();
    },
    2 * PATIENCE_MS,
  );

  test(
    "work with credentials of an operator's account, as nsc makes them",
    async () => {
      const [operator, account, user, system] = [createOperator(), createAccount(), createUser(), createAccount()]; // prettier-ignore
      const limits = { subs: -1, conn: -1, data: -1, payload: -1, imports: -1, exports: -1, mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1, leaf: -1, wildcards: true }; // prettier-ignore
      const jwts = {
        operator: jwt(operator, operator, "O", { type: "operator", system_account: system.getPublicKey() }), // prettier-ignore
        account: jwt(operator, account, "A", { type: "account", limits }),
        system: jwt(operator, system, "SYS", { type: "account", limits: { ...limits, mem_storage: 0, disk_storage: 0, streams: 0, consumer: 0 } }), // prettier-ignore
        user: jwt(account, user, "u", { type: "user", subs: -1, data: -1, payload: -1 }),
      };
      const server = await startNats({
        configExtra: `operator: ${jwts.operator}\nresolver: MEMORY\nresolver_preload { ${account.getPublicKey()}: ${jwts.account}, ${system.getPublicKey()}: ${jwts.system} }`,
      });
      const seed = Buffer.from(user.getSeed()).toString();
      writeFileSync(
        file("user.creds"),
        `-----BEGIN NATS USER JWT-----\n${jwts.user}\n------END NATS USER JWT------\n\n-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
      );
      try {
        const flags = ["--nats", server.url, "--nats-creds", file("user.creds")];
        const run = await cli({}, "provision", "--shards", "4", ...flags);
        expect(run).toMatchObject({ code: 0 });
        // The servers' configuration is not exported to this account, so that it is unknown, and
        // not guessed.
        expect(run.text).toContain("Durability: unknown");
      } finally {
        await server.stop();
      }
    },
    PATIENCE_MS,
  );
});

describe("--require-durable", () => {
  const host = (url: string): Promise<Run> =>
    cli(
      { SECRET: "s", NATS_URL: url, AGENTS_DATA: file("host") },
      "host",
      MODULE,
      "--require-durable",
      "--log-format",
      "json",
    );

  test(
    "refuses a server that acknowledges before it writes to disk, and says how to change that",
    async () => {
      nats = await deployNats({
        config: "single.conf",
        edit: (text) => text.replace("sync_interval: always", 'sync_interval: "10s"'),
      });
      const provisioned = await cli({ NATS_URL: nats.url("operator") }, "provision");
      expect(provisioned.text).toContain("Durability: not power-safe");
      const run = await host(nats.url("host"));
      expect(run.code).toBe(1);
      expect(run.text).toContain("the server nats-1 acknowledges before it writes to disk");
      expect(run.text).toContain("every 10 s");
      expect(run.text).toContain("sync_interval: always");
    },
    PATIENCE_MS,
  );

  test(
    "refuses a server whose durability is unknown",
    async () => {
      const server = await startNats({ syncAlways: true });
      try {
        const run = await host(server.url);
        expect(run.code).toBe(1);
        expect(run.text).toContain("unknown (1 copy: lost with its disk): the broker does not say");
      } finally {
        await server.stop();
      }
    },
    PATIENCE_MS,
  );
});

/** A TLS connection to a route's port: closed without a certificate of the authority. */
async function speak(port: number, own: Certificates): Promise<string> {
  const tls = connectTls({
    host: "127.0.0.1",
    port,
    cert: readFileSync(own.cert),
    key: readFileSync(own.key),
    rejectUnauthorized: false,
  });
  const result = await new Promise<string>((resolve) => {
    tls.on("error", () => resolve("closed")).on("close", () => resolve("closed"));
    // TLS 1.3: a refusal comes after the client's end of the handshake. Otherwise the server says
    // who it is.
    tls.once("data", () => resolve("open"));
  });
  tls.destroy();
  return result;
}

/** The machine's addresses, without the loopback. */
const otherAddresses = (): string[] =>
  Object.values(networkInterfaces())
    .flatMap((one) => one ?? [])
    .filter(({ internal, family }) => !internal && family === "IPv4")
    .map(({ address }) => address);

/** A JWT as NATS has them: signed by the issuer's nkey, of a subject's nkey. */
function jwt(issuer: KeyPair, subject: KeyPair, name: string, grants: object): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  const head = part({ typ: "JWT", alg: "ed25519-nkey" });
  const claims = part({
    jti: name,
    iat: 1_700_000_000,
    iss: issuer.getPublicKey(),
    sub: subject.getPublicKey(),
    name,
    nats: { version: 2, ...grants },
  });
  const signature = issuer.sign(Buffer.from(`${head}.${claims}`));
  return `${head}.${claims}.${Buffer.from(signature).toString("base64url")}`;
}
