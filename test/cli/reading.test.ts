import { statSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import * as exitCodes from "../../services/cli/terminal/CliError.ts";
import { removeDevFile, writeDevFile } from "../../services/cli/serving/devFile.ts";
import { identityOf } from "../../services/lock/ProcessIdentity.ts";
import { shardOf, agentId } from "../../schemas/Address.ts";
import { CliFixture } from "./fixture.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const cli = new CliFixture();
const seqs: number[] = [];
const NATS = ["--nats", "nats://one:4222"];

beforeAll(async () => {
  // Options can come from the environment; these tests say them all.
  for (const name of Object.keys(process.env))
    if (/^(?:NATS_URL|PORT|AGENTS_.*)$/.test(name)) delete process.env[name];
  const webhook = { kind: "webhook", id: "github:a", provider: "github", type: "push" } as const;
  seqs.push(await cli.append("RepoAgent", "octo-demo", [], { kind: "claimed" }));
  seqs.push(await cli.append("RepoAgent", "octo-demo",
    [{ cause: webhook, state: { set: { count: 1, tag: "a" } }, sql: ["INSERT INTO events\n VALUES (?)"], done: ["github:a"] }],
    { delta: "one" })); // prettier-ignore
  await cli.append("Team", "Über/x", [{ state: { set: 7 } }], { host: "host-2" });
  seqs.push(await cli.append("RepoAgent", "octo-demo",
    [{ cause: { kind: "rpc" }, error: "boom" }, { cause: { kind: "queue", attempt: 2 }, state: { splice: [9, 11, "2"] } }],
    { delta: "two", queue: { del: ["q1"] } })); // prettier-ignore
  await cli.append("AIHelper", "h", [{ state: { clear: true } }]);
});

describe("agents list", () => {
  it("--json prints one object a line, with the host that owns each agent's shard", async () => {
    const { code, out } = await cli.run(["list", "--json", ...NATS]);
    const lines = out.split("\n").map((line) => JSON.parse(line) as { class: string });
    const shard = shardOf(agentId("RepoAgent", "octo-demo"), cli.broker.shards);
    expect(code).toBe(0);
    expect(lines.map((line) => line.class).toSorted()).toEqual(["AIHelper", "RepoAgent", "Team"]);
    expect(lines.find((line) => line.class === "RepoAgent")).toEqual({
      class: "RepoAgent", name: "octo-demo", events: 3, lastSeq: seqs[2],
      time: "2026-03-01T09:02:00.000Z", owner: `owner-of-${shard}`,
    }); // prettier-ignore
  });

  it("a class is matched by name or in kebab case, even if kebab case does not convert back", async () => {
    for (const name of ["RepoAgent", "repo-agent", "a-i-helper", "team"]) {
      const { out } = await cli.run(["list", name, "--json", ...NATS]);
      expect(out.split("\n"), name).toHaveLength(1);
    }
  });

  it("an empty list is not a failure, and the message about it is for people only", async () => {
    expect(await cli.run(["list", "no-such", "--json", ...NATS])).toEqual({
      code: 0,
      out: "",
      err: "",
    });
    const people = await cli.run(["list", "no-such", ...NATS]);
    expect(people).toEqual({ code: 0, out: "", err: "No agents of class no-such yet." });
  });

  it("a misspelt class is an error that suggests the existing one", async () => {
    for (const args of [
      ["list", "RepoAgnet"],
      ["state", "repo-agnet", "octo-demo"],
    ])
      expect(await cli.run([...args, ...NATS])).toMatchObject({
        code: 3,
        out: "",
        err: expect.stringContaining("Did you mean RepoAgent?") as string,
      });
  });
});

describe("agents history", () => {
  it("--json prints one object per turn with the state after it, oldest first", async () => {
    const { out } = await cli.run(["history", "repo-agent", "octo-demo", "--json", ...NATS]);
    const host = { host: "host-1", epoch: 1 };
    expect(out.split("\n").map((line) => JSON.parse(line) as unknown)).toEqual([
      { seq: seqs[0], time: "2026-03-01T09:00:00.000Z", cause: { kind: "claimed" }, ...host },
      {
        seq: seqs[1], time: "2026-03-01T09:01:00.000Z",
        cause: { kind: "webhook", id: "github:a", provider: "github", type: "push" },
        state: { count: 1, tag: "a" }, sql: ["INSERT INTO events\n VALUES (?)"], done: ["github:a"], ...host,
      },
      { seq: seqs[2], time: "2026-03-01T09:02:00.000Z", cause: { kind: "rpc" }, error: "boom", ...host },
      {
        seq: seqs[2], time: "2026-03-01T09:02:00.000Z", cause: { kind: "queue", attempt: 2 },
        state: { count: 2, tag: "a" }, queue: { del: ["q1"] }, ...host,
      },
    ]); // prettier-ignore
  });

  it("--limit shows the latest turns, --from the later ones, both with the right states", async () => {
    const last = await cli.run([
      "history",
      "RepoAgent",
      "octo-demo",
      "--limit",
      "1",
      "--json",
      ...NATS,
    ]);
    expect(JSON.parse(last.out)).toMatchObject({ seq: seqs[2], state: { count: 2 } });
    const from = await cli.run([
      "history",
      "RepoAgent",
      "octo-demo",
      "--from",
      String(seqs[2]),
      "--json",
      ...NATS,
    ]);
    expect(from.out.split("\n")).toHaveLength(2);
  });

  it("shows inputs, changes and their author to people", async () => {
    const { out } = await cli.run(["history", "RepoAgent", "octo-demo", ...NATS]);
    expect(out).toContain(
      `${seqs[1]}  2026-03-01T09:01:00.000Z  webhook github push  (host-1, epoch 1)`,
    );
    expect(out).toContain(`    state     {"count":1,"tag":"a"}`);
    expect(out).toContain("    sql       INSERT INTO events VALUES (?)");
    expect(out).toContain("    error     boom");
  });
});

describe("agents state", () => {
  it("--json prints the state with its sequence and time; the plain form prints only the state", async () => {
    const { out } = await cli.run(["state", "repo-agent", "octo-demo", "--json", ...NATS]);
    expect(JSON.parse(out)).toEqual({
      class: "RepoAgent", name: "octo-demo", seq: seqs[2], time: "2026-03-01T09:02:00.000Z",
      state: { count: 2, tag: "a" },
    }); // prettier-ignore
    const people = await cli.run(["state", "Team", "Über/x", ...NATS]);
    expect(people).toMatchObject({ code: 0, out: "7" });
    const unset = await cli.run(["state", "AIHelper", "h", "--json", ...NATS]);
    expect(JSON.parse(unset.out)).toMatchObject({ state: null });
  });

  it("--at shows the state at a sequence or a time", async () => {
    const at = async (point: string) => {
      const { out } = await cli.run([
        "state",
        "RepoAgent",
        "octo-demo",
        "--at",
        point,
        "--json",
        ...NATS,
      ]);
      return JSON.parse(out) as { seq: number; state: unknown };
    };
    expect(await at(String(seqs[1]))).toMatchObject({ seq: seqs[1], state: { count: 1 } });
    expect(await at("2026-03-01T09:01:59Z")).toMatchObject({ seq: seqs[1], state: { count: 1 } });
    expect(await at("2026-03-01T10:30:00+01:00")).toMatchObject({ seq: seqs[2] });
  });

  it("an agent that has ended can't be forked as it is now", async () => {
    await cli.append("Short", "life", [{}]);
    await cli.append("Short", "life", [], { kind: "destroyed" });
    expect(await cli.run(["fork", "Short", "life", "again", ...NATS])).toMatchObject({
      code: 3,
      err: 'Short/life has ended. "agents history" lists its events.',
    });
  });

  it("a point before the first event is not found (3); an invalid point is a usage error (2)", async () => {
    const run = (point: string) =>
      cli.run(["state", "RepoAgent", "octo-demo", "--at", point, ...NATS]);
    expect(await run("2020-01-01T00:00:00Z")).toMatchObject({ code: 3, out: "" });
    expect((await run("2020-01-01T00:00:00Z")).err).toContain("had no event at 2020-01-01");
    for (const point of ["yesterday", "2026-02-30", "2025-02-29T10:00:00Z", "2026-04-31"])
      expect(await run(point)).toMatchObject({
        code: 2,
        err: expect.stringContaining(
          `argument '${point}' is invalid. Use a journal sequence (42)`,
        ) as string,
      });
    expect(await run("2024-02-29")).toMatchObject({ code: 3 });
  });
});

describe("agents sql", () => {
  it("--json prints rows as objects; blobs are base64, integers that JSON can't hold are strings", async () => {
    const { out } = await cli.run([
      "sql",
      "RepoAgent",
      "octo-demo",
      "SELECT",
      "--at",
      String(seqs[1]),
      "--json",
      ...NATS,
    ]);
    expect(JSON.parse(out)).toEqual([
      { n: 0, text: "one", none: null, blob: "AQI=", big: String(2n ** 60n) },
    ]);
  });

  it("the plain form is a table", async () => {
    const { out, err } = await cli.run(["sql", "RepoAgent", "octo-demo", "SELECT", ...NATS]);
    expect(out.split("\n").map((line) => line.split(/ {2,}/).slice(0, 3))).toEqual([
      ["n", "text", "none"], ["-", "----", "----"], ["0", "one", "NULL"], ["1", "two", "NULL"],
    ]); // prettier-ignore
    expect(err).toBe("2 rows");
  });

  it("a statement that writes or fails is an error that says why", async () => {
    const run = (query: string) => cli.run(["sql", "RepoAgent", "octo-demo", query, ...NATS]);
    expect(await run("WRITE")).toMatchObject({ code: 1, out: "" });
    expect((await run("WRITE")).err).toBe("SQLite: the statement writes");
    expect(await run("FAIL")).toMatchObject({ code: 1, err: "SQLite: no such table: events" });
  });
});

describe("commands that read", () => {
  const data = tempFolder("cli").path;
  const dev = {
    ...identityOf(process.pid)!,
    url: "http://127.0.0.1:1",
    natsUrl: "nats://dev:1",
    namespace: "mine",
  };

  it("exit with 3 for an agent that does not exist", async () => {
    for (const args of [["history"], ["state"], ["sql", "SELECT"]]) {
      const [command, ...rest] = args as [string, ...string[]];
      const { code, err } = await cli.run([command, "RepoAgent", "nope", ...rest, ...NATS]);
      expect({ code, err }).toMatchObject({
        code: 3,
        err: expect.stringContaining('no agent RepoAgent "nope"') as string,
      });
    }
  });

  it("use the installation of --nats and --namespace", async () => {
    await cli.run(["list", ...NATS, "--namespace", "other"]);
    expect(cli.targets.at(-1)).toEqual({ natsUrl: "nats://one:4222", namespace: "other" });
  });

  it("otherwise use the running dev server of the data folder", async () => {
    writeDevFile(data, dev);
    expect(statSync(join(data, "dev.json")).mode & 0o077).toBe(0);
    expect((await cli.run(["list", "--data", data])).code).toBe(0);
    expect(cli.targets.at(-1)).toEqual({ natsUrl: "nats://dev:1", namespace: "mine" });
    removeDevFile(data, process.pid);
  });

  it("report a dev server that is missing or has ended, with the remedy", async () => {
    const none = await cli.run(["list", "--data", data], { cwd: data });
    expect(none).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^No dev server runs.*agents dev.*--nats/) as string,
    });
    // The first is far above any pid_max; the second is of another process that had this pid.
    for (const other of [{ pid: 2 ** 30 }, { startedAt: "earlier" }]) {
      writeDevFile(data, { ...dev, ...other });
      expect(await cli.run(["list", "--data", data])).toMatchObject({
        code: 1,
        err: expect.stringMatching(/process \d+\) has ended/) as string,
      });
    }
  });

  it("close their connections, also after a failure", () => {
    expect(cli.opened).toBe(0);
  });
});

const COMMANDS = [
  "dev", "gateway", "host", "provision", "list", "history", "state", "sql", "schedules", "tail", "call", "dead",
]; // prettier-ignore

describe("the command line", () => {
  it("--help and --version are results with exit code 0", async () => {
    const help = await cli.run(["--help"]);
    expect(help.code).toBe(0);
    for (const command of COMMANDS) expect(help.out).toMatch(new RegExp(`^  ${command} `, "m"));
    const codes = Object.entries(exitCodes).filter(([name]) => name.startsWith("EXIT_"));
    for (const [name, code] of codes)
      expect(help.out, name).toMatch(new RegExp(`^  ${String(code)} +[a-z]`, "m"));
    expect(await cli.run(["--version"])).toEqual({ code: 0, out: "1.2.3", err: "" });
  });

  it("every command's help has an example", async () => {
    for (const command of COMMANDS)
      expect((await cli.run(["help", command])).out, command).toMatch(/Examples?:\n {2}agents /);
  });

  it("an invalid command line is exit code 2 with the reason, on stderr only", async () => {
    const wrong: ReadonlyArray<readonly [string[], RegExp]> = [
      [["lst"], /Did you mean list/],
      [["state", "RepoAgent"], /missing required argument 'name'/],
      [["dev", "--port", "x"], /whole number from 0 to 65535/],
      [["list", "--namespace", "a.b", ...NATS], /letters, digits/],
      [["provision"], /--nats/],
      [["dead", "show", "x"], /Use the number of a dead letter/],
      [["tail", "--limit", "0"], /whole number from 1/],
      [["gateway", "server.ts"], /needs a broker/],
      [
        ["gateway", ...NATS, "--allowed-origins", "app.example.com"],
        /origins as browsers send them/,
      ],
      [["gateway", ...NATS, "--allowed-hosts", "http://a.example"], /names or addresses/],
      [["gateway", ...NATS, "--public-url", "hooks.example.com"], /scheme and host/],
      [["gateway", ...NATS, "--public-url", "https://a b"], /scheme and host/],
      [["gateway", ...NATS, "--public-url", "https://:443"], /scheme and host/],
      [["gateway", ...NATS, "--public-url", "https://hooks.example.com:99999"], /scheme and host/],
      [["gateway", ...NATS, "--public-url", "https://me:key@hooks.example.com"], /scheme and host/],
      [["host", ...NATS, "--workers", "0"], /auto, or a whole number from 1 to 256/],
      [["gateway", ...NATS, "--workers", "many"], /auto, or a whole number from 1 to 256/],
      [["dev", "--workers", "2"], /Only gateway and host have workers; dev has one worker/],
      [
        ["mail", ...NATS, "--workers", "2"],
        /Only gateway and host have workers; start several mail processes/,
      ],
      [
        ["console", ...NATS, "--workers", "2"],
        /Only gateway and host have workers; the console is one process/,
      ],
    ];
    for (const [args, says] of wrong)
      expect(await cli.run(args), args.join(" ")).toMatchObject({
        code: 2,
        out: "",
        err: expect.stringMatching(says) as string,
      });
  });

  it.each([
    [["history", "A", "a", "--nope"], "agents history"],
    [["dead", "list", "--nope"], "agents dead list"],
    [["lst"], "agents"],
  ])("an error in the options of %j points to the help of %s", async (args, words) => {
    const { err } = await cli.run(args);
    expect(err).toMatch(new RegExp(`^"${words} --help" `, "m"));
  });

  it("provision passes the options that are set and leaves the others undefined", async () => {
    const { out } = await cli.run(["provision", ...NATS, "--replicas", "3"]);
    expect(out).toBe('nats://one:4222 agents {"replicas":3}');
  });
});
