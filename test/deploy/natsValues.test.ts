/** The values of NATS's chart in `deploy/kubernetes`: server and namespace accept the result. */
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { isNewEnough, parseVersion } from "../../services/natsServer/ServerVersion.ts";
import { natsServerBinary } from "../kit/natsServer.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { passwordOf } from "./DeployedNats.ts";

const DEPLOY = fileURLToPath(new URL("../../deploy/", import.meta.url));
const read = (file: string): string => readFileSync(`${DEPLOY}kubernetes/${file}`, "utf8");

interface Merge {
  readonly merge: object;
}
const values = parse(read("nats-values.yaml")) as {
  readonly config: Merge & { readonly jetstream: Merge };
  readonly container: Merge & {
    readonly env: Record<string, string>;
    readonly image: { readonly tag: string };
  };
  readonly reloader: Merge;
  readonly natsBox: { readonly enabled: boolean };
  readonly podTemplate: Merge;
};
const USERS = ["gateway", "host", "mail", "retention", "reader", "operator", "system"];

/** As `nats.formatConfig` of the chart (`helm/charts/nats/templates/_helpers.tpl`). */
const formatted = (config: object): string =>
  JSON.stringify(config, null, 2)
    .replace(/".*\$include": "(.*)",?/g, "include $1;")
    .replace(/"<<\s+(.*?)\s+>>"/g, "$1");

it("are a configuration that nats-server takes", async () => {
  const folder = tempFolder("nats-values");
  mkdirSync(join(folder.path, "agents"));
  for (const file of ["permissions.conf", "accounts.conf"])
    cpSync(`${DEPLOY}nats/${file}`, join(folder.path, "agents", file));
  const { merge, jetstream } = values.config;
  const config = join(folder.path, "nats.conf");
  const store = { store_dir: join(folder.path, "store"), max_file_store: "<< 60Gi >>" };
  writeFileSync(
    config,
    formatted({ ...merge, port: 4222, jetstream: { ...store, ...jetstream.merge } }),
  );
  const passwords = USERS.map((user) => [`NATS_${user.toUpperCase()}_PASSWORD`, passwordOf(user)]);
  const run = spawnSync(await natsServerBinary(), ["-t", "-c", config], {
    encoding: "utf8",
    env: { ...values.container.env, ...(Object.fromEntries(passwords) as Record<string, string>) },
  });
  folder.remove();
  expect(run).toMatchObject({ status: 0, stderr: expect.stringContaining("is valid") as string });
});

it("name a version of the server that agents take", () => {
  const version = parseVersion(
    `nats-server: v${values.container.image.tag.replace("-alpine", "")}`,
  );
  expect(isNewEnough(version!)).toBe(true);
});

it("make pods that the namespace's label admits", () => {
  const { metadata } = parse(read("namespace.yaml")) as { metadata: { labels: object } };
  expect(metadata.labels).toEqual({ "pod-security.kubernetes.io/enforce": "restricted" });
  expect(values.podTemplate.merge).toMatchObject({
    spec: {
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    },
  });
  for (const { merge } of [values.container, values.reloader])
    expect(merge).toMatchObject({
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    });
  expect(values.natsBox.enabled).toBe(false);
});

it("come with commands that make the namespace before anything in it", () => {
  const commands = read("nats-values.yaml")
    .split("\n")
    .flatMap((line) => /^# {3}((?:kubectl|helm install) .*)/.exec(line)?.[1] ?? []);
  expect(commands[0]).toBe("kubectl apply -f namespace.yaml");
  expect(commands.at(-1)).toBe("kubectl apply -k .");
  expect(commands.filter((command) => command.includes("-n agents"))).toHaveLength(4);
});
