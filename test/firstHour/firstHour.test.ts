/**
 * The first hour of a new user, as `npm run first-hour` walks it: no step fails, and nothing warns.
 */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

it("from the packed tarball in an empty folder to two hosts and a gateway", async () => {
  const run = promisify(execFile)("npm", ["run", "--silent", "first-hour"], { cwd: ROOT });
  const { stdout } = await run;
  expect(stdout).toContain("two hosts and a gateway, and one host dies");
}, 600_000);
