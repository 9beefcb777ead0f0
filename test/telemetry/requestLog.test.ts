/** The request log and the lines of a process: what is written, how much, and in which format. */
import { Effect } from "effect";
import { describe, expect, test } from "vitest";
import { TEXT, type LogFields } from "../../core/telemetry/Log.ts";
import { RequestLog } from "../../core/telemetry/RequestLog.ts";
import { agentId } from "../../schemas/Address.ts";
import { AgentLog } from "../../services/host/AgentLog.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { effectLogger } from "../../services/node/effectLogger.ts";
import { processLog } from "../../services/node/ProcessLog.ts";
import { collectingLog } from "../kit/system.ts";

const unbuilt = (): never => {
  throw new Error("a line is built that is not written");
};

describe("a flood of requests", () => {
  test("writes a bounded number of lines per second, and then how many it omitted", async () => {
    const time = new VirtualTime();
    const log = collectingLog();
    const requests = new RequestLog(log, time, "failed");
    for (let i = 0; i < 10_000; i++)
      requests.write("warn", () => ({ what: "POST /hook", status: 401 }));
    expect(log.lines).toHaveLength(500);
    await time.advance(1_000);
    expect(log.lines.at(-1)).toMatchObject({ level: "warn", fields: { omitted: 9_500 } });
    requests.write("warn", () => ({ what: "POST /hook", status: 401 }));
    expect(log.lines).toHaveLength(502);
  });

  test("writes no lines when disabled, and builds none that are filtered out", () => {
    const log = collectingLog();
    new RequestLog(log, new VirtualTime(), "none").write("error", unbuilt);
    new RequestLog(log, new VirtualTime(), "failed").write("info", unbuilt);
    expect(log.lines).toEqual([]);
    const requests = new RequestLog(log, new VirtualTime(), "all");
    for (let i = 0; i < 500; i++) requests.write("info", () => ({ what: "x", status: 200 }));
    requests.write("info", unbuilt);
    expect(log.lines).toHaveLength(500);
  });
});

describe("a line", () => {
  const written = (format: "text" | "json"): string => {
    const lines: string[] = [];
    const log = processLog({ format, write: (line) => lines.push(line) });
    new RequestLog(log, new VirtualTime(), "all").write("info", () => ({
      what: "POST /webhooks/github",
      agent: agentId("RepoAgent", "acme-site"),
      status: 200,
      ms: 12.3,
      seq: 7,
      delivery: "mwvbsxl7-70lqa00",
    }));
    return lines.join("");
  };

  test("has columns for people, and fields in JSON", () => {
    expect(written("text").slice(9)).toBe(
      "POST /webhooks/github → RepoAgent/acme-site  200  12 ms  seq 7  delivery mwvbsxl7-70lqa00\n",
    );
    expect(JSON.parse(written("json"))).toMatchObject({
      level: "info",
      message: "POST /webhooks/github",
      class: "RepoAgent",
      name: "acme-site",
      status: 200,
      ms: 12.3,
      seq: 7,
      delivery: "mwvbsxl7-70lqa00",
    });
  });

  test("with a hostile name stays one line", () => {
    const log = collectingLog();
    const agent = agentId("A", "x\n12:00:00 POST /forged");
    new RequestLog(log, new VirtualTime(), "all").write("info", () => ({
      what: "x",
      agent,
      status: 200,
    }));
    const { fields } = log.lines[0]!;
    expect((fields as { [TEXT]: () => string })[TEXT]()).not.toContain("\n");
  });
});

describe("extra fields", () => {
  const written = (format: "text" | "json", fields: LogFields): string => {
    const lines: string[] = [];
    processLog({ format, write: (line) => lines.push(line) }).warn("said", fields);
    return lines.join("");
  };

  test("do not overwrite a line's time, level and message", () => {
    const line = JSON.parse(written("json", { time: 9e99, level: "x", message: "forged", ms: 1 }));
    expect(line).toEqual({
      time: expect.stringMatching(/^2\d{3}-/) as string,
      level: "warn",
      message: "said",
      ms: 1,
      "field.time": 9e99,
      "field.level": "x",
      "field.message": "forged",
    });
  });

  test("are written, as text if JSON can't represent them", () => {
    const circle: Record<string, unknown> = {};
    circle["self"] = circle;
    const odd = {
      big: 1n,
      circle,
      bare: Object.assign(Object.create(null), { big: 1n }) as object,
    };
    const bare = "a value that can't be read as text";
    expect(JSON.parse(written("json", { a: 1, ...odd }))).toMatchObject({
      message: "said",
      a: 1,
      big: "1",
      circle: "an object with the fields self",
      bare,
    });
    expect(written("text", { a: 1, ...odd })).toContain(
      `said a=1 big=1 circle=an object with the fields self bare=${bare}\n`,
    );
  });
});

describe("an agent's line", () => {
  const host = collectingLog();
  const log = new AgentLog(
    { log: host, ambient: { current: () => undefined } as never },
    agentId("Shop", "corner"),
  );

  test("has the agent's class and name, whatever the fields are called", () => {
    log.info("sold", { name: "Ann", class: "first", price: 3 });
    expect(host.lines.at(-1)!.fields).toEqual({
      class: "Shop",
      name: "corner",
      price: 3,
      "field.name": "Ann",
      "field.class": "first",
    });
  });

  test("has the stack of an error, and any other value, passed as a field", () => {
    const error = new Error("no");
    for (const given of [error, null, "text", 7]) log.warn("odd", given as never);
    const fields = host.lines.slice(-4).map((line) => line.fields);
    expect(fields).toMatchObject([{ error: error.stack }, { value: null }, { value: "text" }, { value: 7 }]); // prettier-ignore
  });
});

test("lines logged through Effect have the process's own format", async () => {
  const log = collectingLog();
  const logged = Effect.logWarning("the binary can't be loaded");
  await Effect.runPromise(Effect.provide(logged, effectLogger(log)));
  expect(log.lines).toEqual([{ level: "warn", message: "the binary can't be loaded", fields: {} }]);
});
