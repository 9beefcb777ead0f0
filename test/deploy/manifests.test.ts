/** The Kubernetes manifests and systemd units: their own tools take them, and they are true. */
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const KUBERNETES = `${ROOT}deploy/kubernetes/`;
const SYSTEMD = `${ROOT}deploy/systemd/`;

interface Container {
  readonly name: string;
  readonly args: ReadonlyArray<string>;
  readonly env?: ReadonlyArray<{ readonly name: string; readonly value?: string }>;
  readonly ports?: ReadonlyArray<{ readonly name: string; readonly containerPort: number }>;
  readonly [probe: string]: unknown;
}
interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly selector?: { readonly matchLabels?: object };
    readonly scaleTargetRef?: { readonly kind: string; readonly name: string };
    readonly template?: {
      readonly metadata: { readonly labels: object };
      readonly spec: { readonly containers: ReadonlyArray<Container> };
    };
  };
}

const { resources } = parse(readFileSync(`${KUBERNETES}kustomization.yaml`, "utf8")) as {
  readonly resources: ReadonlyArray<string>;
};
const manifests = resources.flatMap((file) =>
  parseAllDocuments(readFileSync(KUBERNETES + file, "utf8")).map(
    (document) => document.toJS() as Manifest,
  ),
);
const workloads = manifests.filter(({ spec }) => spec?.template !== undefined);
const containers = workloads.flatMap(({ spec }) => spec.template!.spec.containers);

/** Variables that the command line reads, and the image's own. */
const known = new Set(
  readdirSync(`${ROOT}services/cli`, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => [
      ...readFileSync(`${ROOT}services/cli/${file}`, "utf8").matchAll(/"([A-Z]+_[A-Z_]+)"/g),
    ])
    .map((match) => match[1]!),
);

const has = (tool: string, arg: string): boolean =>
  spawnSync(tool, [arg], { stdio: "ignore" }).error === undefined;

describe("the image", () => {
  const plain = (text: string): string => text.replaceAll(".", String.raw`\.`);
  const name = (text: string): string => text.split("*").map(plain).join("[^/]*");
  const ignored = readFileSync(`${ROOT}.dockerignore`, "utf8")
    .trim()
    .split("\n")
    .map((line) => new RegExp(`^${line.split("**/").map(name).join("(?:.+/)?")}(?:/|$)`));

  it.each([
    ".env",
    "examples/github/.env",
    "examples/github/.env.local",
    "examples/github/.dev.vars",
    "examples/github/.agents/console-token",
    "deploy/.env",
    "deploy/tls/authority.key",
  ])("has no %s of the one who builds it", (file) => {
    expect(ignored.some((pattern) => pattern.test(file))).toBe(true);
  });

  it("has the example that it serves", () => {
    expect(ignored.some((pattern) => pattern.test("examples/github/server.ts"))).toBe(false);
  });
});

describe("kubernetes/", () => {
  it("is built by kubectl, where kubectl is installed", () => {
    if (!has("kubectl", "--help")) return; // the rules below are all that can be said without it
    const built = execFileSync("kubectl", ["kustomize", KUBERNETES], { encoding: "utf8" });
    expect(parseAllDocuments(built)).toHaveLength(manifests.length);
  });

  it("names each object, and no two are the same", () => {
    const names = manifests.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
    for (const { apiVersion } of manifests) expect(apiVersion).toMatch(/^(?:[a-z.0-9]+\/)?v\d$/);
  });

  it("has selectors that match their objects", () => {
    for (const { spec } of workloads)
      if (spec.selector !== undefined)
        expect(spec.template!.metadata.labels).toMatchObject(spec.selector.matchLabels!);
    for (const { spec } of manifests)
      if (spec?.scaleTargetRef !== undefined)
        expect(workloads).toContainEqual(
          expect.objectContaining({
            kind: spec.scaleTargetRef.kind,
            metadata: { name: spec.scaleTargetRef.name },
          }),
        );
  });

  it("probes gateways and hosts on the admin port, and sets disruption and scaling rules", () => {
    for (const name of ["gateway", "host"]) {
      const container = containers.find((each) => each.name === name)!;
      expect(container.args[0]).toBe(name);
      expect(container.ports).toContainEqual({ name: "admin", containerPort: 9464 });
      expect(container["livenessProbe"]).toMatchObject({ httpGet: { path: "/healthz" } });
      expect(container["readinessProbe"]).toMatchObject({ httpGet: { path: "/readyz" } });
      for (const kind of ["PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy"])
        expect(manifests.some((m) => m.kind === kind && m.metadata.name === name)).toBe(true);
    }
  });

  it("logs every process in over TLS with the authority", () => {
    for (const { name, env = [] } of containers) {
      const values = Object.fromEntries(env.map((one) => [one.name, one.value]));
      expect(values["NATS_URL"], name).toMatch(/^tls:/);
      expect(values["NATS_CA"], name).toBe("/etc/nats-tls/ca.crt");
    }
    const nats = parse(readFileSync(`${KUBERNETES}nats-values.yaml`, "utf8")) as {
      config: Record<"nats" | "cluster", { tls: object }>;
    };
    for (const part of ["nats", "cluster"] as const)
      expect(nats.config[part].tls).toEqual({ enabled: true, secretName: "nats-tls" });
  });

  it("sets only variables that are read, and runs nothing as root", () => {
    for (const { env = [] } of containers)
      for (const { name } of env) if (name !== "NATS_PASSWORD") expect([...known]).toContain(name);
    for (const each of containers)
      expect(each["securityContext"]).toMatchObject({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
      });
  });
});

describe("prometheus/ and compose.yaml", () => {
  it("scrape every process that has an admin port", () => {
    const services = parse(readFileSync(`${ROOT}deploy/compose.yaml`, "utf8"), { merge: true }) as {
      readonly services: Record<string, { readonly command?: ReadonlyArray<string> }>;
    };
    const roles = ["gateway", "host", "mail", "retention"];
    const processes = Object.entries(services.services).flatMap(([name, { command }]) =>
      roles.includes(command?.[0] ?? "") ? [`${name}:9464`] : [],
    );
    const { scrape_configs } = parse(
      readFileSync(`${ROOT}deploy/prometheus/prometheus.yml`, "utf8"),
    ) as {
      readonly scrape_configs: ReadonlyArray<{
        readonly static_configs: ReadonlyArray<{ readonly targets: ReadonlyArray<string> }>;
        readonly dns_sd_configs: ReadonlyArray<{ names: ReadonlyArray<string>; port: number }>;
      }>;
    };
    const targets = scrape_configs.flatMap(({ static_configs, dns_sd_configs }) => [
      ...static_configs.flatMap((one) => one.targets),
      ...dns_sd_configs.flatMap(({ names, port }) => names.map((name) => `${name}:${port}`)),
    ]);
    expect(targets.toSorted()).toEqual(processes.toSorted());
    expect(processes.length).toBeGreaterThan(roles.length);
  });
});

describe("systemd/", () => {
  const units = readdirSync(SYSTEMD);
  it("is accepted by systemd, where systemd is installed", () => {
    if (!has("systemd-analyze", "--version")) return; // as above
    const run = spawnSync("systemd-analyze", ["verify", ...units.map((unit) => SYSTEMD + unit)], {
      encoding: "utf8",
    });
    expect(run.stderr + String(run.status)).toBe("0");
  });

  it("has fixed admin ports, one for each role, and lets processes list addresses", () => {
    const ports = ["gateway", "host"].map((role) => {
      const unit = readFileSync(`${SYSTEMD}agents-${role}.service`, "utf8");
      return /^Environment=AGENTS_ADMIN_PORT=(\d+)$/m.exec(unit)?.[1];
    });
    expect(ports).toEqual(["9464", "9465"]);
    for (const unit of units)
      expect(readFileSync(SYSTEMD + unit, "utf8")).toMatch(
        /^RestrictAddressFamilies=.* AF_NETLINK$/m,
      );
  });

  it("runs our commands, restarts them, and waits for them to stop", () => {
    for (const role of ["gateway", "host"]) {
      const unit = readFileSync(`${SYSTEMD}agents-${role}.service`, "utf8");
      expect(unit).toContain(`agents ${role} \${AGENTS_MODULE}`);
      expect(unit).toMatch(/^Restart=always$/m);
      expect(unit).toMatch(/^TimeoutStopSec=30$/m);
    }
  });
});
