/**
 * Sums up vitest's JSON reports at the end of `.ci/run`: `node .ci/totals.mjs <folder of reports>`.
 *
 * It names each test that did not pass with the first lines of its error and where in the test it
 * arose, and its last line is "N passed, N failed". A file that could not be loaded, a report that
 * can't be read and a run that failed outside its tests count as one failure each. It exits with 1 if
 * anything failed or no test ran. What failed in `<tier>.json` and passed in `<tier>.again.json` is
 * listed as red once.
 *
 * `node .ci/totals.mjs --red <report>` prints the files with failed tests, if all else is well.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { stripVTControlCharacters } from "node:util";

/** Enough for a browser's log of what it waited for, or a short difference. */
const ERROR_LINES = 8;
const AGAIN = ".again.json";

const readReport = (path) => JSON.parse(readFileSync(path, "utf8"));
const nameOf = (file) => relative("", file.name);

/** What failed in a report, and what passed, by file and test. Several tests may have one name. */
function resultsOf(report) {
  const failed = new Map();
  const passed = [];
  for (const file of report.testResults) {
    for (const { status, fullName, failureMessages } of file.assertionResults)
      if (status === "passed") passed.push(`${nameOf(file)} > ${fullName}`);
      else failed.set(`${nameOf(file)} > ${fullName}`, `(${status})${told(failureMessages?.[0])}`);
    if (file.assertionResults.length === 0 && file.status !== "passed")
      failed.set(nameOf(file), told(file.message));
  }
  if (!report.success && failed.size === 0) failed.set("the run", "failed outside its tests");
  return { failed, passed };
}

function told(error = "") {
  const lines = stripVTControlCharacters(error)
    .split("\n")
    .filter((line) => line.trim() !== "");
  const isFrame = (line) => /^ +at /.test(line);
  const message = lines.filter((line) => !isFrame(line)).slice(0, ERROR_LINES);
  const frames = lines.filter((line) => isFrame(line) && line.includes("/test/")).slice(0, 2);
  return ["", ...message, ...frames].join("\n    ");
}

function printRed(path) {
  const report = readReport(path);
  const red = report.testResults.filter(({ status }) => status !== "passed");
  for (const file of red) console.log(nameOf(file));
}

function printTotals(folder) {
  const lines = [];
  let passedCount = 0;
  let failedCount = 0;
  const fail = (where, error) => {
    failedCount++;
    lines.push(`FAILED ${where} ${error}`);
  };
  const names = readdirSync(folder).filter((name) => !name.endsWith(AGAIN));
  for (const name of names)
    try {
      const { failed, passed } = resultsOf(readReport(join(folder, name)));
      passedCount += passed.length;
      const again = join(folder, name.replace(/\.json$/, AGAIN));
      const second =
        failed.size > 0 && existsSync(again) ? resultsOf(readReport(again)) : undefined;
      for (const [test, error] of failed)
        if (second?.passed.includes(test)) {
          passedCount++;
          lines.push(`RED ONCE ${name}: ${test} ${error}`);
        } else fail(`${name}: ${test}`, error);
    } catch (error) {
      fail(name, `no test report: ${error.message}`);
    }
  for (const line of lines) console.log(line);
  console.log(`${passedCount} passed, ${failedCount} failed`);
  process.exitCode = passedCount > 0 && failedCount === 0 ? 0 : 1;
}

const [first, second] = process.argv.slice(2);
if (first === "--red") printRed(second);
else printTotals(first);
