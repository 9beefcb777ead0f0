import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { findNatsServer } from "../../services/natsServer/findNatsServer.ts";
import { isNewEnough, parseVersion } from "../../services/natsServer/ServerVersion.ts";
import { Effect } from "effect";

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
const text = (name: string): string => readFileSync(DEPLOY + name, "utf8");
const SECRETS = { NATS_PASSWORD: "p4ss", GITHUB_WEBHOOK_SECRET: "s3cret" };

interface Service {
  readonly image?: string;
  readonly command: ReadonlyArray<string>;
  readonly environment: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: unknown;
  readonly volumes?: ReadonlyArray<string>;
  readonly ports?: ReadonlyArray<string>;
  readonly read_only?: boolean;
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}
const compose = parse(text("compose.yaml"), { merge: true }) as Compose;

describe("compose.yaml", () => {
  const { services } = compose;
  it("is a broker, a gateway and two hosts, provisioned once", () => {
    expect(Object.keys(services)).toEqual(["nats", "provision", "gateway", "host-1", "host-2"]);
    expect(services["gateway"]!.command).toEqual(["gateway", "examples/github/server.ts"]);
    for (const host of ["host-1", "host-2"])
      expect(services[host]!.command).toEqual(["host", "examples/github/server.ts"]);
    expect(services["provision"]!.command).toEqual(["provision"]);
  });

  it("each starts when what it needs is there", () => {
    expect(services["nats"]!.healthcheck).toMatchObject({
      test: expect.arrayContaining(["CMD"]) as unknown,
    });
    expect(services["provision"]!.depends_on).toEqual({ nats: { condition: "service_healthy" } });
    for (const name of ["gateway", "host-1", "host-2"])
      expect(services[name]!.depends_on).toEqual({
        provision: { condition: "service_completed_successfully" },
      });
  });

  it("the broker's data and each host's cache have a volume of their own", () => {
    const mounts = Object.values(services).flatMap((service) => service.volumes ?? []);
    const named = mounts
      .map((mount) => mount.split(":")[0]!)
      .filter((name) => !name.startsWith("."));
    expect(named.toSorted()).toEqual(Object.keys(compose.volumes).toSorted());
    expect(services["nats"]!.volumes).toContain("nats-data:/data");
  });

  it("only the gateway is reachable from outside, and nothing runs with more rights than it needs", () => {
    const published = Object.entries(services).filter(([, service]) => service.ports !== undefined);
    expect(published.map(([name]) => name)).toEqual(["gateway"]);
    for (const name of ["provision", "gateway", "host-1", "host-2"])
      expect(services[name]).toMatchObject({ read_only: true, cap_drop: ["ALL"] });
  });

  it("holds no secret, and every process is told to refuse a broker that can lose what it stored", () => {
    expect(text("compose.yaml")).not.toMatch(/(?:PASSWORD|SECRET): (?!\$\{)/);
    for (const name of ["gateway", "host-1", "host-2"])
      expect(services[name]!.environment["AGENTS_REQUIRE_DURABLE"]).toBe("true");
  });

  it("every module that it runs exists", () => {
    for (const { command } of Object.values(services))
      for (const part of command.filter((word) => word.endsWith(".ts")))
        expect(existsSync(`${DEPLOY}../${part}`), part).toBe(true);
  });

  it("docker's own validation accepts it, where docker is, and asks for the secrets where they are missing", () => {
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
    expect(good.stdout).toContain("nats://agents:p4ss@nats:4222");
    const bad = config({});
    expect(bad.status).not.toBe(0);
    expect(bad.stderr).toContain("NATS_PASSWORD");
  });
});

describe("nats.conf", () => {
  it("a real nats-server takes it, and acknowledges only what is on disk", async () => {
    const { path } = await Effect.runPromise(findNatsServer());
    const env = { PATH: process.env["PATH"]!, NATS_SERVER_NAME: "n", ...SECRETS };
    const args = ["-c", `${DEPLOY}nats.conf`, "-t"];
    expect(() => execFileSync(path, args, { env, stdio: "pipe" })).not.toThrow();
    expect(text("nats.conf")).toMatch(/^ {2}sync_interval: always$/m);
  });

  it("the broker's image is new enough", () => {
    const tag = compose.services["nats"]!.image!.split(":")[1]!.split("-")[0]!;
    // A tag of two parts is the newest of its line.
    expect(isNewEnough(parseVersion(`nats-server: v${tag}.99`)!)).toBe(true);
  });
});

describe("Dockerfile", () => {
  const lines = text("Dockerfile").split("\n");
  it("builds in one stage and runs in another, as a user without rights, with a healthcheck", () => {
    expect(lines.filter((line) => line.startsWith("FROM node:24-trixie-slim"))).toHaveLength(2);
    const last = lines.slice(lines.lastIndexOf("FROM node:24-trixie-slim"));
    expect(last).toContain("USER node");
    expect(last.some((line) => line.startsWith("HEALTHCHECK"))).toBe(true);
    expect(last.findIndex((line) => line.startsWith("USER"))).toBeLessThan(
      last.findIndex((line) => line.startsWith("ENTRYPOINT")),
    );
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
