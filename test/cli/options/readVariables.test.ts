/** A flag's environment variable says yes or no; an empty one of any option says nothing. */
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, expect, test } from "vitest";
import { commandJoins } from "../../../services/wiring/joinCommands.ts";
import { CliError } from "../../../services/cli/terminal/CliError.ts";
import { CliFixture } from "../fixture.ts";
import { runCommand } from "../../kit/runCommand.ts";
import type { AgentsRun } from "../../kit/runAgents.ts";
import { tempFolder } from "../../kit/tempFolder.ts";

const MODULE = fileURLToPath(new URL("../keeperModule.ts", import.meta.url));
const REQUIRE_DURABLE = "AGENTS_REQUIRE_DURABLE";
const STORE_FIRST = "AGENTS_STORE_FIRST";
const NATS_URL = "NATS_URL";

const data = tempFolder("flags");
afterAll(() => data.remove());
afterEach(() => {
  for (const name of [REQUIRE_DURABLE, STORE_FIRST, NATS_URL, "AGENTS_HOSTNAME"])
    delete process.env[name];
});

/** What `agents gateway` would begin with. It ends there. */
async function gateway(...args: string[]): Promise<AgentsRun & { readonly began: unknown }> {
  let began: unknown;
  const joins = {
    ...commandJoins({ link: undefined, startWorker: () => { throw new Error("none"); } }),
    begin: (settings: unknown) => {
      began = settings;
      return new Promise<never>((_resolve, reject) => reject(new CliError({ message: "ended here", exitCode: 1 })));
    },
  }; // prettier-ignore
  const ran = await runCommand(
    ["gateway", MODULE, "--nats", "nats://one:4222", "--data", data.path, ...args],
    { joins },
  );
  return { ...ran, began };
}

test.each([
  ["1", true],
  ["true", true],
  ["Yes", true],
  ["on", true],
  ["", false],
  ["0", false],
  ["false", false],
  ["NO", false],
  ["off", false],
])("%j in the variables of flags: %j", async (text, value) => {
  process.env[REQUIRE_DURABLE] = process.env[STORE_FIRST] = text;
  const { began } = await gateway();
  expect(began).toMatchObject({ requireDurable: value, limits: { storeFirst: value } });
});

test("a flag of the command line wins", async () => {
  process.env[REQUIRE_DURABLE] = "false";
  const { began } = await gateway("--require-durable");
  expect(began).toMatchObject({ requireDurable: true });
});

test("any other value is a wrong command line", async () => {
  process.env[REQUIRE_DURABLE] = "maybe";
  const { code, err, began } = await gateway();
  expect({ code, began }).toEqual({ code: 2, began: undefined });
  expect(err).toContain("'maybe' from env 'AGENTS_REQUIRE_DURABLE' is invalid");
});

test("an empty variable is as good as none", async () => {
  process.env[NATS_URL] = process.env["AGENTS_HOSTNAME"] = "";
  expect((await gateway()).began).toMatchObject({ hostname: "0.0.0.0" });
  const away = await runCommand(["gateway", MODULE, "--data", data.path]);
  expect(away).toMatchObject({
    code: 2,
    err: expect.stringContaining("needs a broker: --nats nats://… or NATS_URL") as string,
  });
  const cli = new CliFixture();
  expect(await cli.run(["list"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("No dev server runs") as string,
  });
  expect(await cli.run(["provision"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("NATS_URL is empty") as string,
  });
  expect(cli.targets).toEqual([]);
});
