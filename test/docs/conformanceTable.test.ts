/** `docs/evidence/conformance-rows.md`: each row has its test, each name of the interface one. */
import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

const ROOT = new URL("../../", import.meta.url);
const TABLE = readFileSync(new URL("docs/evidence/conformance-rows.md", ROOT), "utf8");

/** By section: each property, option, column, shape, method, hook, limit and entry. */
const NAMES: Readonly<Record<string, string>> = {
  "§2.1": "Env State Props state initialState name env ctx mcp observability genericObservability",
  "§2.2": "hibernate sendIdentityOnConnect hungScheduleTimeoutSeconds retry",
  "§2.3": "maxAttempts baseDelayMs maxDelayMs shouldRetry",
  "§2.4":
    "svc_agents_schedules id callback payload type time delayInSeconds cron intervalSeconds running retry_options created_at scheduled delayed interval",
  "§2.6":
    "ReplyOptions RunWorkflowOptions WorkflowQueryCriteria AgentEmail Connection ConnectionContext date send setState",
  "§4.1": "onRequest routeAgentRequest queue",
  "§4.2": "Content-Type: application/json X-Signature",
  "§4.3":
    "setState sql SqlError schedule queue retry replyToEmail runWorkflow getWorkflows approveWorkflow rejectWorkflow getConnections broadcast setConnectionReadonly isConnectionReadonly shouldConnectionBeReadonly @callable",
  "§4.6": "scheduleSchema getSchedulePrompt",
  "§4.7": "useAgent onStateUpdate agent",
  "§5": "X-Hub-Signature-256 sha256= WEBHOOK_SECRET secret validateStateChange source",
  "§6.2":
    "onStart onConnect onMessage onClose onRequest onEmail validateStateChange onStateChanged onWorkflowProgress onWorkflowComplete onWorkflowError onError",
  "§8": "maxAttempts baseDelayMs maxDelayMs hungScheduleTimeoutSeconds limit offset",
};
/** Texts that a caller reads (§7). */
const ANSWERS = [
  "405 Method not allowed",
  "401 Invalid signature",
  "400 Missing repository",
  "400 Invalid",
  "202 Accepted",
  "200 OK",
  "404 Not found",
  "403 Readonly connection",
];
/** What was there before: fewer means that a section was lost. */
const ROWS_MIN = 180;

const rows = TABLE.split("\n").filter(
  (line) => line.startsWith("| ") && !line.startsWith("| ---") && !/^\| what\b/.test(line),
);
const referencesOf = (row: string): Array<{ readonly file: string; readonly title: string }> =>
  [...row.matchAll(/`(test\/[^`]+)`: "(.*?)"(?=<br>|\s*\|)/g)].map(([, file = "", title = ""]) => ({
    file,
    title: title.replaceAll("\\|", "|"),
  }));
const texts = new Map<string, string>();
function textOf(file: string): string {
  const path = new URL(file, ROOT);
  if (!texts.has(file)) texts.set(file, existsSync(path) ? readFileSync(path, "utf8") : "");
  return texts.get(file) ?? "";
}
/** `name`, or where it begins an expression: `name(…)`, `name?`, `name:`. */
const says = (name: string): boolean =>
  [...TABLE.matchAll(/`([^`]+)`/g)].some(([, code = ""]) => {
    const at = code.indexOf(name);
    const after = code.charAt(at + name.length);
    const before = code.charAt(at - 1);
    return at >= 0 && !/\w/.test(after) && !/[\w/]/.test(before);
  });

describe("the conformance table", () => {
  it("has a row for each thing, and each row a test", () => {
    expect(rows.length).toBeGreaterThan(ROWS_MIN);
    expect(rows.filter((row) => referencesOf(row).length === 0)).toEqual([]);
  });

  it("names only tests that exist, by their titles", () => {
    const gone = rows
      .flatMap(referencesOf)
      .filter(({ file, title }) => !textOf(file).includes(title))
      .map(({ file, title }) => `${file}: "${title}"`);
    expect([...new Set(gone)], "rename the row with the test").toEqual([]);
  });

  it("cites only tests that run: no title is in a comment or a skipped test", () => {
    const idle = rows.flatMap(referencesOf).filter(({ file, title }) => {
      const line =
        textOf(file)
          .split("\n")
          .find((each) => each.includes(title)) ?? "";
      return /^\s*(?:\/\/|\*|\/\*)|\.(?:skip|todo)\(/.test(line);
    });
    expect(idle).toEqual([]);
  });

  it.each(Object.entries(NAMES))("covers every name of %s", (_section, names) => {
    const missing = names.split(/ (?!application)/).filter((name) => !says(name));
    expect(missing).toEqual([]);
  });

  it("covers each text that a caller reads", () => {
    expect(ANSWERS.filter((answer) => !rows.some((row) => row.startsWith(`| ${answer}`)))).toEqual(
      [],
    );
  });
});
