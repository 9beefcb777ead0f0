/** Wrong arguments are reported before the broker is tried: exit code 2. One row for each kind. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempFolder } from "../../kit/tempFolder.ts";
import { CliFixture } from "../fixture.ts";

const NATS = ["--nats", "nats://one:4222"];
const POINT = "Use a journal sequence (42), a time";
const TIME = "Use a time (2026-03-01T09:30:00Z) or how long ago";
const CLASS = "Use the name of an agent class";

const ROWS: ReadonlyArray<readonly [args: string, said: string]> = [
  ["list acme/site", CLASS],
  ["top 4ever", CLASS],
  ["tail über", CLASS],
  ["dead list a.b", CLASS],
  ["dead redrive --all a.b", CLASS],
  ["dead redrive", "Specify numbers of dead letters, or --all."],
  ["dead redrive 1 --all", "Specify numbers of dead letters, or --all."],
  ["dead redrive 1 --yes", "--yes belongs to --on-fork"],
  ["dead show seven", "Use the number of a dead letter."],
  ["history Some <>", "Agent name is empty."],
  ["retention none.ts --history days=1,days=2", "has days twice"],
  ["history Some one --since yesterday", TIME],
  ["history Some one --until 42", TIME],
  ["history Some one --until 1h --follow", "--until and --follow can't be combined"],
  ["deliveries --since yesterday", TIME],
  ["deliveries --agent /one", CLASS],
  ["state Some one --at 2026-02-30", POINT],
  ["state Some one --at 99999999999d", POINT],
  ["deliveries --since 99999999999d", TIME],
  ["redeliver --range 99999999999d..", "Use two times with .. between them"],
  ["sql Some one SELECT --at soon", POINT],
  ["schedules Some one --at soon", POINT],
  ["workflows Some one --at soon", POINT],
  ["workflows Some one --cursor soon", "Use the cursor that"],
  ["fibers Some one --at soon", POINT],
  ["approvals Some --at soon", POINT],
  ["diff Some one --from soon", POINT],
  ["diff Some one --from 1 --to soon", POINT],
  ["fork Some one two --at soon", POINT],
  ["fork Some one one", "The fork needs a name of its own."],
  ["restore Some one --at soon", POINT],
  ["query SELECT --at 42", TIME],
  ["query SELECT --after Some/one", "Use an event of an agent"],
  ["why Some one a..b", "Use a path, as in"],
  ["why Some one table:rows", "A row is identified by its key in brackets"],
  ["call Some one greet Ada", `A string needs its own quotes: '"Ada"'`],
  ["redeliver", "Specify ids, or --range"],
  ["redeliver x --status dead", "belong to --range"],
  ["redeliver x --route /hook", "belong to --range"],
  ["redeliver x --agent Some/one", "belong to --range"],
  ["redeliver --range 2h", "Use two times with .. between them"],
  ["redeliver --range 2h..soon", "Use two times with .. between them"],
  ["redeliver x --to <>", "Agent name is empty."],
  ["redeliver x --on-fork --dry-run", "leave out --dry-run"],
  ["release Some one --module x.ts", "--module belongs to --on-fork"],
  ["export --follow --from soon", 'Use the "position" of a line'],
  ["top --interval 0", "Use a number above 0, up to 3600."],
  ["list --data <>", "It is empty: give a value, or leave the option out."],
  ["list --nats-creds <>", "It is empty"],
  ["dev --hostname <>", "It is empty"],
  ["dev --data <>", "It is empty"],
  ["host none.ts --admin-hostname <>", "It is empty"],
  ["init app --turnkeep <>", "It is empty"],
  ["export Some one --from end", "--from and --limit require --follow."],
];

test.each(ROWS)("agents %s", async (line, said) => {
  const cli = new CliFixture();
  const args = line.split(" ").map((arg) => (arg === "<>" ? "" : arg));
  const { code, out, err } = await cli.run(args[0] === "init" ? args : [...args, ...NATS]);
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toContain(said);
  expect(cli.targets).toEqual([]);
});

test("help about no command is reported as that command is; help about help is the list", async () => {
  const wrong = await new CliFixture().run(["help", "stat"]);
  expect(wrong).toMatchObject({ code: 2, out: "" });
  expect(wrong.err).toContain("unknown command 'stat'\n(Did you mean state?)");
  for (const args of [["help", "help"], ["help", "--help"], ["help"]]) {
    const { code, out } = await new CliFixture().run(args);
    expect(code).toBe(0);
    expect(out).toContain("Exit codes:");
  }
});

test.each(["import missing.jsonl", "restore missing", "erase Some one --yes --backups missing"])(
  "agents %s: a file that can't be read is reported before the broker is tried",
  async (line) => {
    const cli = new CliFixture();
    const { code, err } = await cli.run([...line.split(" "), ...NATS]);
    expect(code).toBe(1);
    expect(err).toContain("missing");
    expect(cli.targets).toEqual([]);
  },
);

test("a file of import that is no regular one is refused before the broker is tried", async () => {
  const cli = new CliFixture();
  const { code, err } = await cli.run(["import", "/dev/null", ...NATS]);
  expect({ code, targets: cli.targets }).toEqual({ code: 1, targets: [] });
  expect(err).toContain("A pipe can't be read twice");
});

test("a backup's folders are checked before the broker is tried", async () => {
  const folder = tempFolder("wrong-backup");
  writeFileSync(join(folder.path, "notes.txt"), "");
  const cli = new CliFixture();
  const full = await cli.run(["backup", folder.path, ...NATS]);
  expect(full).toMatchObject({ code: 1, err: `${folder.path} is not empty. Use a new folder for each backup.` }); // prettier-ignore
  const since = await cli.run(["backup", join(folder.path, "new"), "--since", folder.path, ...NATS]); // prettier-ignore
  expect(since).toMatchObject({ code: 1, err: expect.stringContaining("not a backup") as string });
  expect(cli.opened).toBe(0);
  folder.remove();
});
