/** The map (`docs/internals/map.md`), tried on some changes: a row's first file is the one. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

const ROOT = new URL("../../", import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, ROOT), "utf8");

const rows = new Map(
  [...read("docs/internals/map.md").matchAll(/^\| (.+?) +\| (.+?) +\|/gm)].map(
    ([, change, open]) => [change!, open!],
  ),
);
const sources = execFileSync("git", ["ls-files", "core", "services", "schemas"], {
  cwd: ROOT,
  encoding: "utf8",
})
  .split("\n")
  .filter((path) => /\.tsx?$/.test(path));

/** Rows of the map, and the line that has to change. */
const CHANGES: ReadonlyArray<readonly [change: string, decides: RegExp]> = [
  ["a webhook provider", /export \* from "\.\/providers\/bodySigned\.ts"/],
  ["the retry backoff", /baseDelayMs \* 2 \*\* attempt/],
  ["the snapshot policy", /class SnapshotPolicy\b/],
  ["when a gateway answers 202", /class PendingWebhook\b/],
  ["a metric", /function agentMetrics\(/],
  ["a field of an event", /const JournalHead = |class JournalHead\b/],
  ["the cron misfire policy", /const isSkipped = /],
  ["when a turn that blocks its process is ended", /const OUTSIDE_FACTOR = /],
  ["which times a cron expression means", /class CronParser\b/],
  ["which inputs count as done, and for how long", /const DONE_RETENTION_MS = /],
  ["how long a turn's writes gather", /const GATHER_MS = 50\b/],
  ["how many shards a host takes", /function fairShare\(/],
  ["when an idle agent leaves memory", /hibernate\(nowMs: number, idleLimitMs = Infinity\)/],
  ["who may reach a class over HTTP", /class Access\b/],
  ["which headers and parameters are credentials", /class Redaction\b/],
  ["rate limits of sockets", /const FRAMES_PER_SECOND = /],
  ["limits of state, commit and journal", /const WRITE_LIMITS_DEFAULT/],
  ["a subject or stream name", /class Subjects\b/],
  ["a stream's settings", /function streamConfigs\(/],
  ["a frame of the WebSocket protocol", /const stateErrorFrame = /],
  ["which addresses agents may call", /function isPublicAddress\(/],
  ["what `getCurrentAgent().webhook` shows", /function webhookOf\(/],
  ["how an entity becomes a name", /const escapedSlug\b/],
  ["which agent a mail reaches", /function emailRoute\(/],
  ["what sub-agents are", /class SubAgents\b/],
  ["the MCP servers that an agent uses", /class McpServer\b/],
  ["how an agent is an MCP server", /function serveMcp\(/],
  ["how a workflow runs and is replayed", /class Execution\b/],
  ["how interrupted fibers are recovered", /const RECOVERIES_MAX = /],
  ["webhooks and mail that agents send", /class OutgoingLane\b/],
  ["who owns a shard", /function shardOwner\(/],
  ["when a process is ready", /function readinessOf\(/],
  ["when a worker is started again", /const STEADY_MS = /],
  ["how a process logs in to the broker", /function loginOptions\(/],
  ["what a client does when it loses the server", /class AgentClient\b/],
  ["what the kit for users' tests does", /function testAgents\(/],
];

it.each(CHANGES)("%s: the map names the one file that decides it", (change, decides) => {
  const named = /`([^`]+)`/.exec(rows.get(change) ?? "")?.[1];
  const deciding = sources.filter((path) => decides.test(read(path)));
  expect(deciding).toEqual([named]);
});

it("each CLI command has the file of its name", () => {
  expect(rows.get("a CLI command")).toBe("`services/cli/commands/`");
  const list = read("services/cli/commandList.ts");
  const commands = [...list.matchAll(/import\("\.\/commands\/(\w+)\.ts"/g)];
  expect(commands.length).toBeGreaterThan(15);
});
