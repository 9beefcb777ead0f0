/** The stack of an error in a line of the log. */
import { expect, test } from "vitest";
import { logLine } from "../../services/node/logLine.ts";
import { packageFolder } from "../../services/ownPackage/ownFile.ts";

const own = (what: string): string =>
  `    at ${what} (${new URL("core/turn/Turn.ts", packageFolder).href}:3:4)`;
const MODULE = "    at RepoAgent.onRequest (file:///app/server.ts:9:40)";

function logged(stack: ReadonlyArray<string>): ReadonlyArray<string> {
  const fields = { error: stack.join("\n") };
  const line = logLine("json", { level: "error", message: "it failed", fields, timeMs: 0 });
  return (JSON.parse(line) as { readonly error: string }).error.split("\n");
}

test("it ends with the module's code, and begins with what refused its call", () => {
  const stack = [
    "InvalidSchedule: no such time",
    own("checkSchedule"),
    MODULE,
    own("Object.run"),
    "    at AsyncLocalStorage.run (node:async_hooks:346:14)",
    "    at new Promise (<anonymous>)",
    own("runTurn"),
    "  caused by: Error: no zone",
    MODULE,
    own("async runTurn"),
  ];
  expect(logged(stack)).toEqual([...stack.slice(0, 3), ...stack.slice(7, 9)]);
});

test("one of this package's frames alone is logged whole", () => {
  const stack = ["Error: a defect", own("Object.run"), own("runTurn")];
  expect(logged(stack)).toEqual(stack);
});
