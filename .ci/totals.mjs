/**
 * Sums up vitest's JSON reports at the end of `.ci/run`: `node .ci/totals.mjs <folder of reports>`.
 *
 * It names each test that did not pass with the first lines of its error and where in the test it
 * arose, and its last line is "N passed, N failed". A file that could not be loaded, a report that
 * can't be read and a run that failed outside its tests count as one failure each. It exits with 1 if
 * anything failed or no test ran.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

const folder = process.argv[2];
const failures = [];
let passed = 0;

/** Enough for a browser's log of what it waited for, or a short difference. */
const ERROR_LINES = 8;

function fail(where, error = "") {
  const lines = stripVTControlCharacters(error)
    .split("\n")
    .filter((line) => line.trim() !== "");
  const isFrame = (line) => /^ +at /.test(line);
  const told = lines.filter((line) => !isFrame(line)).slice(0, ERROR_LINES);
  const frames = lines.filter((line) => isFrame(line) && line.includes("/test/")).slice(0, 2);
  failures.push([where, ...told, ...frames].join("\n    "));
}

function count(name) {
  const report = JSON.parse(readFileSync(join(folder, name), "utf8"));
  const before = failures.length;
  for (const file of report.testResults) {
    const source = `${name}: ${relative("", file.name)}`;
    for (const { status, fullName, failureMessages } of file.assertionResults)
      if (status === "passed") passed++;
      else fail(`${source} > ${fullName} (${status})`, failureMessages?.[0]);
    if (file.assertionResults.length === 0 && file.status !== "passed") fail(source, file.message);
  }
  if (!report.success && failures.length === before) fail(name, "the run failed outside its tests");
}

for (const name of readdirSync(folder))
  try {
    count(name);
  } catch (error) {
    fail(name, `no test report: ${error.message}`);
  }

for (const failure of failures) console.log(`FAILED ${failure}`);
console.log(`${passed} passed, ${failures.length} failed`);
process.exitCode = passed > 0 && failures.length === 0 ? 0 : 1;
