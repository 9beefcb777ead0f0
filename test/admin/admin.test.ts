import { request as httpRequest } from "node:http";
import { Effect, Exit, Scope } from "effect";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import { serveAdmin, type AdminOptions, type Readiness } from "../../services/admin/AdminServer.ts";
import { PrometheusMetrics } from "../../services/admin/PrometheusMetrics.ts";
import { parsePrometheus } from "./parsePrometheus.ts";

describe("metrics in Prometheus's format", () => {
  it("counters, gauges and histograms are printed with their help, type and labels", async () => {
    const metrics = new PrometheusMetrics();
    const turns = metrics.counter("turns_total", "Turns\nthat ended", { cause: 'a"b\\' });
    turns();
    turns(2);
    metrics.gaugeFrom("active", "In memory", () => 7);
    const seconds = metrics.histogram("wait_seconds", "Waits", [0.1, 1]);
    for (const value of [0.1, 0.5, 3]) seconds(value);
    metrics.gaugeFrom("lag", "Waiting", async () => 5);
    expect(await metrics.render()).toBe(`# HELP turns_total Turns\\nthat ended
# TYPE turns_total counter
turns_total{cause="a\\"b\\\\"} 3
# HELP active In memory
# TYPE active gauge
active 7
# HELP wait_seconds Waits
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.1"} 1
wait_seconds_bucket{le="1"} 2
wait_seconds_bucket{le="+Inf"} 3
wait_seconds_sum 3.6
wait_seconds_count 3
# HELP lag Waiting
# TYPE lag gauge
lag 5
`);
  });

  it("the same name and labels are one series", async () => {
    const metrics = new PrometheusMetrics();
    metrics.counter("a_total", "A", { x: "1" })();
    metrics.counter("a_total", "A", { x: "1" })();
    metrics.counter("a_total", "A", { x: "2" })();
    expect(await metrics.render()).toContain('a_total{x="1"} 2\na_total{x="2"} 1\n');
  });

  it("a gauge that can't be read is omitted, and the others are kept", async () => {
    const metrics = new PrometheusMetrics();
    metrics.gaugeFrom("broken", "Broken", () => Promise.reject(new Error("no broker")));
    metrics.gaugeFrom("fine", "Fine", () => 1);
    const text = await metrics.render();
    expect(text).not.toMatch(/^broken /m);
    expect(text).toMatch(/^fine 1$/m);
  });

  it("invalid names, one name with two kinds, and a decreasing counter are defects", () => {
    const metrics = new PrometheusMetrics();
    expect(() => metrics.counter("bad-name", "")).toThrow(RangeError);
    expect(() => metrics.counter("l_total", "", { le: "1" })).toThrow(RangeError);
    const count = metrics.counter("c_total", "");
    expect(() => metrics.gaugeFrom("c_total", "", () => 1)).toThrow(/is a counter/);
    expect(() => count(-1)).toThrow(RangeError);
  });

  it("the system's own metrics have the names that dashboards use, and can be turned off", async () => {
    const metrics = new PrometheusMetrics();
    const mine = agentMetrics(metrics);
    const repo = mine.ofClass("Repo");
    repo.turn(500);
    repo.turn(1_000);
    repo.commit(300);
    repo.activation(7);
    repo.stall(250);
    const route = { path: "/webhooks/github", agent: "Repo", verifier: { provider: "github" } };
    mine.webhooks(route, 200, 0.004);
    mine.inboxLag(() => 3);
    mine.active(() => 2);
    mine.connections(() => 1);
    const text = await metrics.render();
    for (const line of [
      'agents_turns_total{class="Repo"} 2',
      'agents_turn_seconds_total{class="Repo"} 1.5',
      'agents_commits_total{class="Repo"} 1',
      'agents_commit_bytes_total{class="Repo"} 300',
      'agents_stalls_total{class="Repo"} 1',
      'agents_stall_seconds_total{class="Repo"} 0.25',
      'agents_refused_appends_total{class="Repo"} 0',
      'agents_activations_total{class="Repo"} 1',
      'agents_replayed_events_total{class="Repo"} 7',
      'agents_dead_letters_total{class="Repo"} 0',
      "agents_inbox_lag 3",
      "agents_active 2",
      "agents_connections 1",
      'agents_webhooks_total{class="Repo",route="/webhooks/github",provider="github",status="200"} 1',
      'agents_webhook_seconds_count{class="Repo",route="/webhooks/github",provider="github"} 1',
    ])
      expect(text.split("\n")).toContain(line);
    agentMetrics(noMetrics).ofClass("Repo").commit(1);
  });

  it("the output parses as Prometheus text, however many class names there are", async () => {
    const metrics = new PrometheusMetrics();
    const mine = agentMetrics(metrics);
    for (let n = 0; n < 1_000; n++) mine.ofClass(`Made"${n}"`).turn(1);
    const path = '/webhooks/:a\\b"';
    mine.webhooks({ path, agent: "Repo", verifier: { provider: "github" } }, 500, 3);
    mine.active(() => Number.NaN);
    const families = parsePrometheus(await metrics.render());
    const turns = families.get("agents_turns_total")!;
    expect(turns).toMatchObject({ type: "counter", help: "Turns that ended" });
    expect(turns.samples).toHaveLength(101);
    expect(turns.samples.at(-1)).toEqual({ labels: { class: "other" }, value: 900 });
    expect(families.get("agents_webhooks_total")!.samples).toEqual([
      { labels: { class: "Repo", route: path, provider: "github", status: "500" }, value: 1 },
    ]);
    expect(families.get("agents_webhook_seconds")!.type).toBe("histogram");
    expect(families.get("agents_active")!.samples).toEqual([{ labels: {}, value: Number.NaN }]);
  });
});

describe("the admin port", () => {
  let scope: Scope.Closeable;
  let state: Readiness;
  beforeEach(() => {
    scope = Effect.runSync(Scope.make());
    state = { ready: true };
  });
  afterEach(() => Effect.runPromise(Scope.close(scope, Exit.void)));
  const serve = (options: Partial<AdminOptions> = {}) =>
    Effect.runPromise(
      serveAdmin({
        port: 0,
        readiness: () => state,
        metrics: async () => "a 1\n",
        ...options,
      }).pipe(Scope.provide(scope)),
    );
  const get = (
    port: number,
    path: string,
    options: { method?: string; headers?: Record<string, string> } = {},
  ): Promise<{ status: number; body: string; type: string | undefined }> =>
    new Promise((done, fail) => {
      const request = httpRequest({ host: "127.0.0.1", port, path, ...options }, (response) => {
        let body = "";
        response.on("data", (chunk: Buffer) => (body += chunk.toString()));
        response.on("end", () =>
          done({ status: response.statusCode!, body, type: response.headers["content-type"] }),
        );
      });
      request.on("error", fail);
      request.end();
    });

  it("healthz reports that the process runs; readyz reports whether it is ready, and why not", async () => {
    const { port } = await serve();
    expect(await get(port, "/healthz")).toMatchObject({ status: 200, body: "ok\n" });
    expect(await get(port, "/readyz?verbose")).toMatchObject({ status: 200, body: "ready\n" });
    state = { ready: false, reason: "the broker can't be reached" };
    expect(await get(port, "/readyz")).toMatchObject({
      status: 503,
      body: "not ready: the broker can't be reached\n",
    });
    expect(await get(port, "/healthz")).toMatchObject({ status: 200 });
  });

  it("metrics are Prometheus text; a failure to read them is a 500 and not a crash", async () => {
    const { port } = await serve();
    expect(await get(port, "/metrics")).toEqual({
      status: 200,
      body: "a 1\n",
      type: "text/plain; version=0.0.4; charset=utf-8",
    });
    const broken = await serve({ metrics: () => Promise.reject(new Error("x")) });
    expect((await get(broken.port, "/metrics")).status).toBe(500);
  });

  it("only GET and HEAD are answered, and only the three paths", async () => {
    const { port } = await serve();
    expect((await get(port, "/healthz", { method: "POST" })).status).toBe(405);
    const head = await get(port, "/healthz", { method: "HEAD" });
    expect([head.status, head.body]).toEqual([200, ""]);
    expect((await get(port, "/")).status).toBe(404);
  });

  it("on a loopback address, a foreign Host is refused", async () => {
    const { port } = await serve();
    const status = async (host: string) =>
      (await get(port, "/metrics", { headers: { host } })).status;
    expect(await status("evil.example:80")).toBe(421);
    expect(await status("127.0.0.1.evil.example")).toBe(421);
    expect(await status("localhost:1")).toBe(200);
    expect(await status(`[::1]:${port}`)).toBe(200);
  });

  it("a port in use is an error with the remedy, and the port is free after the scope closes", async () => {
    const { port } = await serve();
    const second = await Effect.runPromise(
      Effect.flip(
        Effect.scoped(serveAdmin({ port, readiness: () => state, metrics: async () => "" })),
      ),
    );
    expect(second).toMatchObject({ _tag: "ListenFailed", port });
    expect(second.message).toContain("--admin-port");
    await Effect.runPromise(Scope.close(scope, Exit.void));
    scope = Effect.runSync(Scope.make());
    expect((await serve({ port })).port).toBe(port);
  });
});
