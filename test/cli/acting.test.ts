/** How commands that act on agents parse command lines. `installation.test.ts` has the rest. */
import { describe, expect, it } from "vitest";
import { AgentUnreachable, CallDenied } from "../../core/call/AgentUnreachable.ts";
import type { CallClient } from "../../core/call/CallClient.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { encodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { makeMemoryQuarantines } from "../../services/memory/MemoryQuarantines.ts";
import { CliFixture } from "./fixture.ts";

const NATS = ["--nats", "nats://one:4222"];

function fixture(reply: CallReply | Error) {
  const cli = new CliFixture();
  const calls: Array<Parameters<CallClient["call"]>> = [];
  cli.answer = async (...args) => {
    calls.push(args);
    if (reply instanceof Error) throw reply;
    return { reply, body: new Uint8Array(0) };
  };
  return { cli, calls };
}

describe("agents call", () => {
  it("parses each argument as JSON, and calls the agent of that class and name", async () => {
    const { cli, calls } = fixture({ kind: "result", value: { sum: 3 } });
    const args = ["greet", '"Ada"', "12", "null", '{"loud":true}'];
    const ran = await cli.run(["call", ...NATS, "front-desk", "Über/x", ...args]);
    expect(ran).toEqual({ code: 0, out: '{\n  "sum": 3\n}', err: "" });
    expect(calls).toEqual([
      [
        agentId("FrontDesk", "Über/x"),
        { kind: "rpc", method: "greet", args: ["Ada", 12, null, { loud: true }] },
        { deadlineMs: 30_000, repeatable: false },
      ],
    ]);
  });

  it("takes arguments that begin with a dash after --", async () => {
    const { cli, calls } = fixture({ kind: "result" });
    await cli.run(["call", "Counter", "x", "add", ...NATS, "--", "-1"]);
    expect(calls[0]![1]).toMatchObject({ args: [-1] });
  });

  it("a class in kebab case matches the existing class, whatever its capitals", async () => {
    const { cli, calls } = fixture({ kind: "result" });
    await cli.append("AIHelper", "h", [{}]);
    await cli.run(["call", "a-i-helper", "h", "m", ...NATS]);
    expect(calls[0]![0].class).toBe("AIHelper");
  });

  it("--json prints one line, and null when there is no result", async () => {
    const run = (reply: CallReply) =>
      fixture(reply).cli.run(["call", "C", "x", "m", "--json", ...NATS]);
    expect(await run({ kind: "result", value: { a: [1] } })).toMatchObject({ out: '{"a":[1]}' });
    expect(await run({ kind: "result" })).toMatchObject({ code: 0, out: "null" });
  });

  it("invalid JSON is a usage error that shows how to write a string; nothing is called", async () => {
    const { cli, calls } = fixture({ kind: "result" });
    const ran = await cli.run(["call", "C", "x", "m", "1", "Ada", ...NATS]);
    expect(ran).toMatchObject({ code: 2, out: "" });
    expect(ran.err).toContain("argument value 'Ada' is invalid for argument 'json'. Use JSON.");
    expect(ran.err).toContain(`'"Ada"'`);
    expect(calls).toEqual([]);
  });

  it("an unreachable or failing agent is exit code 1 with the reason or where to look", async () => {
    const away = await fixture(new AgentUnreachable({ message: "no host owns it" })).cli.run([
      "call", "C", "x", "m", ...NATS,
    ]); // prettier-ignore
    expect(away).toMatchObject({ code: 1, err: expect.stringContaining("agents host") as string });
    const failed = await fixture({
      kind: "error",
      name: "RangeError",
      message: "no start today",
    }).cli.run(["call", "C", "x", "m", ...NATS]);
    expect(failed).toMatchObject({ code: 1 });
    expect(failed.err).toContain("C/x.m(): RangeError: no start today");
  });
});

const FORGED = "a\n9  C other  2026-03-01T00:00:00.000Z";
const ESCAPED = "a\\u000a9  C other";

describe("agents release", () => {
  const MARK = {
    kind: "kills", reason: "its turns end processes", host: "h", sinceMs: 0,
    untilMs: Date.UTC(2100, 0, 1), times: 1,
  } as const; // prettier-ignore
  const marks = (cli: CliFixture) => makeMemoryQuarantines(cli.broker.connect());

  it("asks the owner of the agent, which need not have a journal", async () => {
    const { cli, calls } = fixture({ kind: "result", value: MARK });
    await marks(cli).put(agentId("RepoAgent", "x"), MARK);
    const ran = await cli.run(["release", "repo-agent", "x", ...NATS]);
    expect(ran).toMatchObject({
      code: 0,
      out: expect.stringContaining("RepoAgent/x is released") as string,
    });
    expect(calls.map(([id, call]) => [id, call])).toEqual([
      [agentId("RepoAgent", "x"), { kind: "release" }],
    ]);
  });

  it("prints a reason with a line feed as one line", async () => {
    const { cli } = fixture({ kind: "result", value: MARK });
    await marks(cli).put(agentId("RepoAgent", "x"), { ...MARK, reason: FORGED });
    const { out } = await cli.run(["release", "RepoAgent", "x", ...NATS]);
    expect(out).toContain(ESCAPED);
  });

  it("reports an agent that is not quarantined or does not exist, without asking for confirmation", async () => {
    const { cli, calls } = fixture({ kind: "result", value: null });
    await cli.append("RepoAgent", "well", [{}]);
    await cli.append("RepoAgent", "over", [{}]);
    await marks(cli).put(agentId("RepoAgent", "over"), { ...MARK, untilMs: 1 });
    for (const name of ["well", "over"]) {
      const ran = await cli.run(["release", "repo-agent", name, ...NATS]);
      expect(ran).toMatchObject({ code: 1, out: "" });
      expect(ran.err).toContain(`RepoAgent/${name} is not quarantined`);
      expect(ran.err).toContain("agents list --quarantined");
    }
    const none = await cli.run(["release", "RepoAgent", "none", ...NATS]);
    expect(none).toMatchObject({ code: 3 });
    expect(none.err).toContain('There is no agent RepoAgent "none"');
    expect(calls).toEqual([]);
  });

  it("an owner that does not answer, or is too old to, is exit code 1 with the remedy", async () => {
    const ran = async (reply: CallReply | Error) => {
      const { cli } = fixture(reply);
      await marks(cli).put(agentId("C", "x"), MARK);
      return cli.run(["release", "C", "x", ...NATS]);
    };
    expect(await ran(new AgentUnreachable({ message: "no answer" }))).toMatchObject({
      code: 1,
      err: expect.stringContaining("Run this again") as string,
    });
    expect(await ran({ kind: "error", name: "Error", message: "unknown call" })).toMatchObject({
      code: 1,
      err: expect.stringContaining("could not be released: unknown call") as string,
    });
  });

  it("agents list --quarantined shows the quarantined agents with the reason", async () => {
    const { cli } = fixture(new Error("nobody is asked"));
    const run = (...more: string[]) => cli.run(["list", "--quarantined", ...more, ...NATS]);
    expect(await run()).toMatchObject({ code: 0, out: "", err: "No agent is quarantined." });
    await marks(cli).put(agentId("RepoAgent", "x"), MARK);
    await marks(cli).put(agentId("Other", "y"), { ...MARK, kind: "journal" });
    await marks(cli).put(agentId("RepoAgent", "over"), { ...MARK, untilMs: 1 });
    const all = await run();
    expect(all.err).toBe("2 agents are quarantined");
    expect(all.out).toContain("RepoAgent x");
    expect(all.out).toContain("its turns end processes");
    const { out } = await run("repo-agent", "--json");
    expect(out.split("\n").map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        class: "RepoAgent", name: "x", kind: "kills", reason: MARK.reason, times: 1, host: "h",
        since: "1970-01-01T00:00:00.000Z", until: "2100-01-01T00:00:00.000Z",
      },
    ]); // prettier-ignore
  });
});

describe("a question to a host", () => {
  const CONNECTIONS = ["connections", "C", "x", ...NATS];

  it("that is refused, as by an older host, is an error that names the host and the remedy", async () => {
    const refused = { kind: "error", name: "Error", message: "Internal Server Error" } as const;
    const { cli, calls } = fixture(refused);
    const ran = await cli.run(CONNECTIONS);
    const shard = shardOf(calls[0]![0], cli.broker.shards);
    const why = `the host owner-of-${shard} refused the question (Internal Server Error). If it is of an older release than this command, update it; else its log says why.`;
    expect(ran).toEqual({ code: 1, out: "", err: `The connections of C/x are not known: ${why}` });
    const asked = await fixture(refused).cli.run(["query", "SELECT 1", ...NATS]);
    expect([asked.code, asked.out]).toEqual([1, ""]);
    expect(asked.err).toMatch(/^The view of all agents can't be asked \("agents query --local" asks no host\): the host owner-of-\d+ refused the question/); // prettier-ignore
  });

  it("about the connections of an agent that does not exist is not answered with none", async () => {
    const value = { agent: "hibernated", total: 0, connections: [] };
    const { cli } = fixture({ kind: "result", value });
    const ran = await cli.run(CONNECTIONS);
    expect([ran.code, ran.out]).toEqual([3, ""]);
    expect(ran.err).toContain('There is no agent C "x"');
    await cli.append("C", "x", [{}]);
    expect(await cli.run(CONNECTIONS)).toMatchObject({ code: 0, out: "" });
  });

  it("that nobody answers is a different error", async () => {
    const { cli } = fixture(new AgentUnreachable({ message: "nobody" }));
    const { code, err } = await cli.run(CONNECTIONS);
    expect([code, err]).toEqual([1, expect.stringContaining("no host answered. Either none owns its shard, or the broker's login")]); // prettier-ignore
  });
});

describe("agents dead", () => {
  const letter = encodeDeadLetter(
    { agent: ["C", "x"], seq: 7, reason: "lost", host: "h", time: Date.UTC(2026, 2, 1) },
    Buffer.from("nothing that can be read"),
  );

  it("an unreadable letter is listed, and not redriven", async () => {
    const { cli } = fixture({ kind: "result" });
    await cli.deadLetters.put(agentId("C", "x"), letter);
    await cli.deadLetters.put(agentId("C", "y"), Buffer.from("not even a letter"));
    const { out } = await cli.run(["dead", "list", "--json", ...NATS]);
    expect(out.split("\n").map((line) => JSON.parse(line) as unknown)).toEqual([
      { id: 1, class: "C", name: "x", time: "2026-03-01T00:00:00.000Z", reason: "lost", host: "h", unreadable: expect.any(String) as string },
      { id: 2, class: "C", name: "y", unreadable: expect.any(String) as string },
    ]); // prettier-ignore
    const redriven = await cli.run(["dead", "redrive", "1", "2", ...NATS]);
    expect(redriven).toMatchObject({ code: 1, out: "" });
    expect(redriven.err.split("\n")).toHaveLength(2);
    expect(await cli.deadLetters.count()).toBe(2);
    expect((await cli.run(["dead", "drop", "1", "2", "--json", ...NATS])).out).toBe(
      '{"id":1,"class":"C","name":"x","dropped":true}\n{"id":2,"class":"C","name":"y","dropped":true}',
    );
    expect(await cli.deadLetters.count()).toBe(0);
  });

  it("an error with a line feed is one line of the list", async () => {
    const { cli } = fixture({ kind: "result" });
    const head = { agent: ["C", "x"], seq: 7, reason: FORGED, host: "h", time: 0 } as const;
    await cli.deadLetters.put(agentId("C", "x"), encodeDeadLetter(head, Buffer.from("none")));
    const { out } = await cli.run(["dead", "list", ...NATS]);
    expect(out).toContain(`    error     ${ESCAPED}`);
    expect(out.split("\n").filter((line) => /^\d/.test(line))).toHaveLength(1);
  });

  it("without a subcommand, it lists the subcommands", async () => {
    const { code, err } = await fixture({ kind: "result" }).cli.run(["dead"]);
    expect(code).toBe(2);
    for (const part of ["list", "show", "redrive", "drop"])
      expect(err).toMatch(new RegExp(`^  ${part} `, "m"));
  });
});

describe("a login that may not call the agent", () => {
  const denied = new CallDenied({
    message: "Agent C/x can't be reached: the login may not use it",
  });

  it("agents call does not ask whether a host runs", async () => {
    const { cli } = fixture(denied);
    const { err } = await cli.run(["call", "C", "x", "m", ...NATS]);
    expect(err).toBe(`${denied.message}. Log in as the operator.`);
  });
});
