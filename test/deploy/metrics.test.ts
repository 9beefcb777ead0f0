/** The dashboard and the alert rules ask for metrics that a gateway and a host really serve. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { ANSWERED_BY_AGENT, Installation, SECRET } from "../kit/Installation.ts";
import { Senders } from "../faults/Senders.ts";
import type { Top } from "../../services/cli/commands/top.ts";
import { sign } from "../../services/webhooks/sign.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { parsePrometheus } from "../admin/parsePrometheus.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string): string => readFileSync(ROOT + path, "utf8");

interface Dashboard {
  readonly panels: ReadonlyArray<{
    readonly title: string;
    readonly targets: ReadonlyArray<{ readonly expr: string }>;
  }>;
}
interface Rules {
  readonly groups: ReadonlyArray<{
    readonly rules: ReadonlyArray<{ readonly alert: string; readonly expr: string }>;
  }>;
}
const dashboard = JSON.parse(read("deploy/grafana/agents.json")) as Dashboard;
const rules = (parse(read("deploy/prometheus/alerts.yml")) as Rules).groups.flatMap(
  (group) => group.rules,
);

let installation: Installation;
let host: AgentsProcess;
/** Every series of both processes: `name{labels}`. */
let series: string[] = [];

beforeAll(async () => {
  installation = await Installation.start({ shards: 4, leaseTtlMs: 5_000, env: ANSWERED_BY_AGENT });
  // With two workers, whose metrics the parent serves together with its own.
  host = await installation.startHost("a", { args: ["--workers", "2"] });
  await installation.gateway.ready();
  const senders = new Senders({
    url: installation.gateway.url,
    secret: SECRET,
    deliveries: [{ agent: "one", id: "1" }],
    concurrency: 1,
    paceMs: 0,
    heldBack: 0,
  });
  await senders.finished;
  const retention = await installation.startRetention();
  for (const process of [installation.gateway, host, retention]) {
    const text = await process.metrics();
    parsePrometheus(text); // throws for what Prometheus would refuse
    series.push(...text.split("\n").filter((line) => line !== "" && !line.startsWith("#")));
  }
  await retention.stop();
});

afterAll(async () => {
  await installation?.stop();
});

/** Each metric in an expression, with the labels that it is narrowed or summed by. */
const metricsIn = (expr: string): string[] => expr.match(/\bagents_[a-z_]+/g) ?? [];
const labelsIn = (expr: string): string[] => [
  ...[...expr.matchAll(/by \(([a-z_, ]+)\)/g)].flatMap((match) => match[1]!.split(/, */)),
  ...[...expr.matchAll(/([a-z_]+)=~?"/g)].map((match) => match[1]!),
];
/** Those that Prometheus adds to every series. */
const ADDED = new Set(["instance", "job"]);

function missing(expr: string): string[] {
  return metricsIn(expr).flatMap((metric) => {
    const found = series.filter((line) => new RegExp(`^${metric}(?:\\{| )`).test(line));
    if (found.length === 0) return [metric];
    return labelsIn(expr)
      .filter((label) => !ADDED.has(label) && !found.some((line) => line.includes(`${label}="`)))
      .map((label) => `${metric}{${label}}`);
  });
}

describe("monitoring", () => {
  test.each(dashboard.panels.map((panel) => [panel.title, panel] as const))(
    "has a panel %s whose metrics are served",
    (_, panel) => {
      const exprs = panel.targets.map(({ expr }) => expr);
      expect(exprs.flatMap(metricsIn)).not.toEqual([]);
      expect(exprs.flatMap(missing)).toEqual([]);
    },
  );

  test.each(rules.map((rule) => [rule.alert, rule] as const))(
    "has an alert %s whose metrics are served and which the runbook covers",
    (_, rule) => {
      expect(missing(rule.expr)).toEqual([]);
      expect(read("docs/operations/trouble.md")).toContain(`### ${rule.alert}\n`);
    },
  );

  test("counts a turn that blocks its process, by class and by agent", async () => {
    let isOver = false;
    /** Sends them all the while: an agent that has hibernated is not listed. */
    const sending = (async () => {
      for (let sent = 0; !isOver; sent++) {
        const body = JSON.stringify({ agent: "slow", id: `hold ${sent}`, holdMs: 600 });
        const headers = sign.github(body, SECRET, { event: "push", id: `hold ${sent}` });
        const url = `${installation.gateway.url}/webhooks/github`;
        expect((await fetch(url, { method: "POST", headers, body })).status).toBe(200);
      }
    })();
    const top = await pollUntil("a stall", async () => {
      const { out } = await runAgents(["top", "--json", "--interval", "0.1"], { NATS_URL: installation.nats.url }); // prettier-ignore
      const { agents } = JSON.parse(out) as Top;
      const slow = agents.find(({ name }) => name === "slow");
      return (slow?.stalls ?? 0) > 0 ? { done: true, value: slow } : { done: false, saw: out };
    }).finally(() => (isOver = true));
    await sending;
    expect(top).toMatchObject({ class: "Ledger", stalledSeconds: expect.any(Number) as number });
    expect(top!.stalledSeconds).toBeGreaterThanOrEqual(0.2);
    const metrics = parsePrometheus(await host.metrics());
    const stalls = metrics.get("agents_stalls_total")!.samples;
    expect(stalls.every(({ labels }) => labels["class"] === "Ledger")).toBe(true);
    // The agent counts from its last waking on.
    expect(stalls.reduce((sum, { value }) => sum + value, 0)).toBeGreaterThanOrEqual(top!.stalls);
  });

  test("detects a metric that no process serves", () => {
    expect(missing("rate(agents_unknown_total[5m])")).toEqual(["agents_unknown_total"]);
    expect(missing("sum by (colour) (agents_webhooks_total)")).toEqual([
      "agents_webhooks_total{colour}",
    ]);
  });
});
