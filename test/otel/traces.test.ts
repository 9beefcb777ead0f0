/** OpenTelemetry end to end: one trace from the provider's request to all that it causes. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { asksForTraces } from "../../services/otel/startOtel.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { OtlpReceiver, type ReceivedSpan } from "./OtlpReceiver.ts";

const MODULE = fileURLToPath(new URL("./tracedModule.ts", import.meta.url));
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

let installation: Installation;
let receiver: OtlpReceiver;
let gateway: AgentsProcess;
let host: AgentsProcess;

beforeAll(async () => {
  receiver = await OtlpReceiver.start();
  const env = {
    CALLED: receiver.url,
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    OTEL_BSP_SCHEDULE_DELAY: "50",
    OTEL_SERVICE_NAME: "shop",
  };
  installation = await Installation.start({ shards: 4, module: MODULE, gateway: false, env });
  const args = ["--request-log", "all"];
  host = await installation.startHost("host", { args });
  gateway = await installation.startGateway({ args });
  await gateway.ready();
});
afterAll(async () => {
  await installation?.stop();
  receiver?.stop();
});

const post = (body: object, traceparent?: string) =>
  fetch(`${gateway.url}/hook`, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "content-type": "application/json", ...(traceparent && { traceparent }) },
  });

const spansOf = (trace: string, names: ReadonlyArray<string>): Promise<ReceivedSpan[]> =>
  pollUntil(`the spans ${names.join(", ")}`, () => {
    const spans = receiver.spans.filter((span) => span.trace === trace);
    const there = names.every((name) => spans.some((span) => span.name === name));
    return there ? { done: true, value: spans } : { done: false, saw: spans.map((s) => s.name) };
  });

describe("one trace", () => {
  test("contains the request, its verification, the turn, SQL, the commit, and everything that the turn causes", async () => {
    expect((await post({ name: "a" }, `00-${TRACE}-${PARENT}-01`)).status).toBe(200);
    const spans = await spansOf(TRACE, [
      "POST /hook",
      "verify unsigned",
      "Traced webhook",
      "INSERT",
      "journal append",
      "GET",
      "Counter/count",
      "Counter rpc count",
      "Traced schedule remind",
      "Traced queue work",
      "tally",
    ]);
    const named = (name: string): ReceivedSpan => spans.find((span) => span.name === name)!;
    const request = named("POST /hook");
    const turn = named("Traced webhook");
    expect([request.parent, request.service]).toEqual([PARENT, "shop"]);
    expect(named("verify unsigned").parent).toBe(request.id);
    expect(turn.parent).toBe(request.id);
    for (const name of ["INSERT", "GET", "Counter/count"]) expect(named(name).parent).toBe(turn.id);
    expect(named("tally")).toMatchObject({ parent: turn.id, failed: false, attributes: { counters: 1 } }); // prettier-ignore
    expect(named("Counter rpc count").parent).toBe(named("Counter/count").id);
    for (const job of ["Traced schedule remind", "Traced queue work"])
      expect(named(job).parent).toBe(turn.id);
    expect(spans.filter((span) => span.name === "journal append" && span.parent === turn.id).length)
      .toBeGreaterThan(0); // prettier-ignore
    expect(request.attributes).toMatchObject({
      "http.route": "/hook",
      "http.response.status_code": 200,
      "agents.class": "Traced",
      "agents.delivery.status": "answered",
    });
    expect(named("INSERT").attributes).toMatchObject({ "db.system.name": "sqlite" });
  });

  test("is propagated to what the agent calls, and is in the event, the log and the delivery log", async () => {
    expect(receiver.called.get("/called?token=secret")).toContain(TRACE);
    const history = await installation.agents("history", "Traced", "a", "--json");
    expect(history.out).toContain(`"traceparent":"00-${TRACE}-`);
    // The host's, where the answer came late.
    const lines = [...gateway.lines, ...host.lines];
    expect(lines.find(({ message }) => message === "POST /hook")).toMatchObject({ trace: TRACE });
    const deliveries = await pollUntil("the delivery", async () => {
      const { out } = await installation.agents("deliveries", "--json");
      return out !== "" && out;
    });
    expect(deliveries).toContain(`"trace":"${TRACE}"`);
  });

  test("contains no bound value, and no query string", () => {
    expect(receiver.spans.length).toBeGreaterThan(5);
    expect(JSON.stringify(receiver.spans)).not.toMatch(/secret/);
  });

  test("begins with the request if its caller sends none, and marks a failed turn", async () => {
    expect((await post({ name: "b", fail: true })).status).toBe(500);
    const turn = await pollUntil("the failed turn", () =>
      receiver.spans.find(({ name, failed }) => name === "Traced webhook" && failed),
    );
    const request = await pollUntil("its request", () =>
      receiver.spans.find(({ name, trace }) => name === "POST /hook" && trace === turn.trace),
    );
    expect([request.parent, request.failed, turn.parent]).toEqual([undefined, true, request.id]);
    expect(turn.trace).not.toBe(TRACE);
  });
});

test.each([
  [{}, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }, true],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://collector:4318/v1/traces" }, true],
  [{ OTEL_TRACES_EXPORTER: "console" }, true],
  [{ OTEL_TRACES_EXPORTER: "none", OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }, false],
  [{ OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }, false],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: "" }, false],
])("tracing is configured by the environment %j: %s", (env, asks) => {
  expect(asksForTraces(env)).toBe(asks);
});
