import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";
import { isNewEnough, parseVersion } from "../../services/natsServer/ServerVersion.ts";
import { Effect } from "effect";
import { tempFolder } from "../kit/tempFolder.ts";
import { makeCertificates, tlsVariables } from "./makeCertificates.ts";

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
const text = (name: string): string => readFileSync(DEPLOY + name, "utf8");
const SECRETS = Object.fromEntries(
  [...text("example.env").matchAll(/^([A-Z_]+)=$/gm)].map((match) => [match[1]!, "p4ss"]),
);

interface Service {
  readonly image?: string;
  readonly command?: ReadonlyArray<string>;
  readonly environment: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: unknown;
  readonly volumes?: ReadonlyArray<string>;
  readonly secrets?: ReadonlyArray<string>;
  readonly ports?: ReadonlyArray<string>;
  readonly read_only?: boolean;
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}
const compose = parse(text("compose.yaml"), { merge: true }) as Compose;

const BROKERS = ["nats-1", "nats-2", "nats-3"];
const GATEWAYS = ["gateway-1", "gateway-2"];
const HOSTS = ["host-1", "host-2"];

describe("compose.yaml", () => {
  const { services } = compose;
  it("runs three brokers, two gateways and two hosts, provisioned once with three replicas", () => {
    expect(Object.keys(services)).toEqual([
      ...BROKERS, "provision", ...GATEWAYS, ...HOSTS, "mail", "retention", "console", "prometheus", "grafana",
    ]); // prettier-ignore
    for (const name of GATEWAYS)
      expect(services[name]!.command).toEqual(["gateway", "examples/github/server.ts"]);
    for (const name of HOSTS)
      expect(services[name]!.command).toEqual(["host", "examples/github/server.ts"]);
    expect(services["provision"]!.command).toEqual(["provision", "--replicas", "3"]);
  });

  it("starts each process once its dependencies are ready", () => {
    for (const name of BROKERS)
      expect(services[name]!.healthcheck).toMatchObject({
        test: expect.arrayContaining(["CMD"]) as unknown,
      });
    expect(services["provision"]!.depends_on).toEqual(
      Object.fromEntries(BROKERS.map((name) => [name, { condition: "service_healthy" }])),
    );
    for (const name of [...GATEWAYS, ...HOSTS])
      expect(services[name]!.depends_on).toEqual({
        provision: { condition: "service_completed_successfully" },
      });
  });

  it("gives each broker's data and each process's cache their own volume", () => {
    const mounts = Object.values(services).flatMap((service) => service.volumes ?? []);
    const named = mounts
      .map((mount) => mount.split(":")[0]!)
      .filter((name) => !name.startsWith("."));
    expect(named.toSorted()).toEqual(Object.keys(compose.volumes).toSorted());
    for (const name of BROKERS) expect(services[name]!.volumes).toContain(`${name}-data:/data`);
  });

  it("mounts only files that exist", () => {
    for (const mount of Object.values(services).flatMap((service) => service.volumes ?? []))
      if (mount.startsWith("./"))
        expect(existsSync(DEPLOY + mount.split(":")[0]!), mount).toBe(true);
  });

  it("exposes only gateways and mail, and grants no process more rights than it needs", () => {
    const published = Object.entries(services).filter(([, service]) =>
      service.ports?.some((port) => !port.startsWith("127.0.0.1:")),
    );
    expect(published.map(([name]) => name)).toEqual([...GATEWAYS, "mail"]);
    for (const name of ["provision", "mail", ...GATEWAYS, ...HOSTS])
      expect(services[name]).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
  });

  it("logs each process in as its own user, and makes it refuse a broker that can lose acknowledged data", () => {
    for (const name of [...GATEWAYS, ...HOSTS, "mail"]) {
      const { environment } = services[name]!;
      const user = name.replace(/-\d$/, "");
      expect(environment["NATS_URL"]).toMatch(
        new RegExp(`^tls://${user}:\\$\\{NATS_${user.toUpperCase()}_PASSWORD`),
      );
      expect(environment["AGENTS_REQUIRE_DURABLE"]).toBe("true");
      expect(environment["NATS_CA"]).toBe("/run/secrets/nats-ca");
    }
  });

  it("gives certificates to brokers, and keys to them alone", () => {
    const { secrets } = parse(text("compose.yaml")) as {
      secrets: Record<string, { file: string }>;
    };
    expect(Object.keys(secrets)).toEqual(["nats-ca", "nats-crt", "nats-key"]);
    for (const [name, { secrets: own = [], environment }] of Object.entries(services)) {
      expect(own.includes("nats-key"), name).toBe(BROKERS.includes(name));
      for (const url of [environment?.["NATS_URL"] ?? ""].filter((one) => one !== ""))
        expect(url).toMatch(/^tls:/);
      for (const secret of own) expect(Object.keys(secrets)).toContain(secret);
    }
  });

  it("contains no secret", () => {
    expect(text("compose.yaml")).not.toMatch(/(?:PASSWORD|SECRET): (?!\$\{)/);
  });

  it("runs only modules that exist", () => {
    for (const { command } of Object.values(services))
      for (const part of (command ?? []).filter((word) => word.endsWith(".ts")))
        expect(existsSync(`${DEPLOY}../${part}`), part).toBe(true);
  });

  it("passes docker's own validation, where docker is installed, and requires the missing secrets", () => {
    const tool = composeTool();
    if (tool === undefined) return; // the tests above are all that can be said without it
    const [program, ...args] = tool;
    const config = (env: Readonly<Record<string, string>>) =>
      spawnSync(program!, [...args, "-f", `${DEPLOY}compose.yaml`, "config"], {
        encoding: "utf8",
        env: { PATH: process.env["PATH"]!, HOME: "/nonexistent", ...env },
      });
    const good = config(SECRETS);
    expect(good.stderr + String(good.status)).toMatch(/0$/);
    expect(good.stdout).toContain("tls://host:p4ss@nats-1:4222,nats-2:4222,nats-3:4222");
    const bad = config({});
    expect(bad.status).not.toBe(0);
    expect(bad.stderr).toMatch(/set [A-Z_]+ in \.env/);
  });
});

describe("nats/", () => {
  it.each(["single.conf", "cluster.conf"])(
    "has a %s that a real nats-server accepts and that acknowledges only what is on disk",
    async (file) => {
      const { path } = await Effect.runPromise(findNatsServer());
      const env = {
        PATH: process.env["PATH"]!,
        ...SECRETS,
        NATS_SERVER_NAME: "n",
        NATS_SERVER_TAG: "zone:a",
        NATS_STORE_DIR: "/nonexistent",
        NATS_MAX_FILE: "1GB",
        ...Object.fromEntries([1, 2, 3].map((n) => [`NATS_ROUTE_${n}`, `nats://route:p@n${n}:1`])),
      };
      const folder = tempFolder("certificates");
      Object.assign(env, tlsVariables(makeCertificates(folder.path)));
      const args = ["-c", `${DEPLOY}nats/${file}`, "-t"];
      expect(() => execFileSync(path, args, { env, stdio: "pipe" })).not.toThrow();
      folder.remove();
      expect(text(`nats/${file}`)).toMatch(/^ {2}sync_interval: always$/m);
      expect(text(`nats/${file}`)).toMatch(/^http: "127\.0\.0\.1:8222"$/m);
    },
  );

  it("uses a recent enough broker image", () => {
    const tag = compose.services["nats-1"]!.image!.split(":")[1]!.split("-")[0]!;
    // A tag of two parts is the newest of its line.
    expect(isNewEnough(parseVersion(`nats-server: v${tag}.99`)!)).toBe(true);
  });
});

describe("Dockerfile", () => {
  const lines = text("Dockerfile").split("\n");
  it("builds in one stage and runs in another, as an unprivileged user, with a healthcheck", () => {
    expect(lines.filter((line) => line.startsWith("FROM node:24-trixie-slim"))).toHaveLength(2);
    const last = lines.slice(lines.lastIndexOf("FROM node:24-trixie-slim"));
    expect(last).toContain("USER node");
    expect(last.some((line) => line.startsWith("HEALTHCHECK"))).toBe(true);
    expect(last.findIndex((line) => line.startsWith("USER"))).toBeLessThan(
      last.findIndex((line) => line.startsWith("ENTRYPOINT")),
    );
  });

  it("starts what is built, with nothing before it that a signal would end", () => {
    const entry = lines.find((line) => line.startsWith("ENTRYPOINT "))!.slice("ENTRYPOINT ".length);
    const files = (JSON.parse(entry) as string[]).filter((word) => word.endsWith(".js"));
    expect(files[0]).toMatch(/\/endOnSignals\.js$/);
    for (const file of files) {
      const source = file.replace("/opt/agents/dist/", `${DEPLOY}../`).replace(/\.js$/, ".ts");
      expect(existsSync(source), file).toBe(true);
    }
  });

  it("copies only what exists", () => {
    for (const line of lines.filter((l) => l.startsWith("COPY ") && !l.includes("--from=")))
      for (const source of line.split(" ").slice(1, -1))
        expect(existsSync(`${DEPLOY}../${source}`), source).toBe(true);
  });
});

/** `docker compose` or `docker-compose`, whichever works here. */
function composeTool(): ReadonlyArray<string> | undefined {
  return [["docker", "compose"], ["docker-compose"]].find(
    ([program, ...args]) =>
      spawnSync(program!, [...args, "version"], { stdio: "ignore" }).status === 0,
  );
}
