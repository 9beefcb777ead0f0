/** What is hidden of a turn's input is in no text of the spans of what the turn does. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Turn } from "../../core/turn/Turn.ts";
import type { AmbientShape } from "../../core/turn/Ambient.ts";
import type { TracingShape } from "../../core/telemetry/Tracing.ts";
import { agentId } from "../../schemas/Address.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";
import { tracedCalls } from "../../services/otel/tracedCalls.ts";
import { TracedPorts } from "../../services/otel/TracedPorts.ts";

const SECRET = "ann@hidden.example";
const spans: Array<{ readonly name: string; readonly texts: unknown[] }> = [];
const tracing: TracingShape = {
  start: (name, { attributes }) => {
    const texts: unknown[] = [attributes];
    spans.push({ name, texts });
    return {
      traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
      set: (more) => void texts.push(more),
      end: (error) => void texts.push(error instanceof Error ? error.stack : error),
      run: (f) => f(),
    };
  },
};
const ports = new TracedPorts(tracing, asyncAmbient satisfies AmbientShape);
const failure = (): never => {
  throw new Error(`no account for ${SECRET}`);
};

/** Runs `f` in a webhook's turn, as its agent's code. */
const inTurn = <A>(f: () => A): A =>
  ports.ambient.run(
    new Turn({ cause: { kind: "webhook" }, owner: {}, durable: true, conceals: [SECRET] }),
    f,
  );

beforeEach(() => void spans.splice(0));
afterEach(() => expect(JSON.stringify(spans)).not.toContain("hidden.example"));

test("requests", async () => {
  const get = ports.fetch(async () => failure());
  await expect(inTurn(() => get(`http://localhost/of/${SECRET}`))).rejects.toThrow(SECRET);
  expect(spans.at(-1)).toMatchObject({
    name: "GET",
    texts: [{ "url.full": "http://localhost/of/REDACTED" }, expect.stringContaining("REDACTED")],
  });
});

test("outgoing webhooks", async () => {
  const { post } = ports.outgoing({ post: async () => ({ _tag: "Failed", message: SECRET }) } as never); // prettier-ignore
  await inTurn(() => post({ url: `http://localhost/${SECRET}`, headers: {} } as never));
  expect(spans.at(-1)).toMatchObject({ name: "POST", texts: [{}, "REDACTED"] });
});

test("statements, also where they are cut", () => {
  const { database } = ports.databases({ open: () => ({ database: { query: failure } }) } as never).open(agentId("A", "a")); // prettier-ignore
  for (const padding of [0, 1_970])
    expect(() =>
      inTurn(() => database.query(`SELECT '${" ".repeat(padding)}${SECRET}'`, [])),
    ).toThrow(SECRET);
  expect(spans.filter(({ name }) => name === "SELECT")).toHaveLength(2);
  expect(JSON.stringify(spans)).not.toContain("ann@");
});

test("calls that fail, and calls that are answered with an error", async () => {
  const replies = [async () => ({ reply: { kind: "error", message: SECRET } }), async () => failure()]; // prettier-ignore
  for (const reply of replies) {
    const { call } = tracedCalls({ call: reply as never }, ports);
    const rpc = { kind: "rpc", method: "of", args: [] } as never;
    await inTurn(() => call(agentId("Account", SECRET), rpc, {} as never).catch(() => undefined));
  }
  expect(spans.filter(({ name }) => name === "Account/of")).toHaveLength(2);
});
