/**
 * `npm run mcp-conformance [-- --scenario <name>] [--node <program>]`: the protocol's own
 * conformance tests, against the server of `conformanceModule` and against an agent as a client, on
 * a gateway and a host as processes. It runs `dist/`: build first. The tests come from npm and need
 * Node 22; `--node` names one. Exit code 1 when a scenario fails that is not in `EXPECTED`.
 */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { cachedPackages } from "../../kit/cachedPackages.ts";
import { Installation } from "../../kit/Installation.ts";

const MODULE = fileURLToPath(new URL("./conformanceModule.ts", import.meta.url));
const CLIENT = fileURLToPath(new URL("./conformanceClient.ts", import.meta.url));
const MANIFEST = { dependencies: { "@modelcontextprotocol/conformance": "0.1.16" } };

/** What fails, and why. Whatever else fails is a fault. */
const EXPECTED: Readonly<Record<string, string>> = {
  "sse-retry": "the official client's own timing, on a busy machine",
};

const { values } = parseArgs({
  options: {
    scenario: { type: "string" },
    node: { type: "string", default: process.execPath },
  },
});
const folder = cachedPackages("mcp-conformance", MANIFEST);
const installation = await Installation.start({ shards: 4, module: MODULE, gateway: false });
try {
  // On a loopback address it refuses the names of others, which is one of the tests.
  installation.gateway = await installation.startGateway({ args: ["--hostname", "127.0.0.1"] });
  await installation.startHost("a", { args: ["--mcp-allow-loopback"] });
  await installation.shared(1);
  const { url } = installation.gateway;
  const command = `${process.execPath} --import ${import.meta.resolve("tsx")} ${CLIENT} ${url}`;
  const results = [
    ...(await conformance("server", "--url", `${url}/mcp`)),
    ...(await conformance("client", "--command", command, "--suite", "core")),
  ];
  for (const { line, name, holds } of results) {
    const why = holds ? "" : ` (${EXPECTED[name] ?? "not expected"})`;
    console.log(`${line}${why}`);
    if (!holds && !(name in EXPECTED)) process.exitCode = 1;
  }
  const held = results.filter(({ holds }) => holds).length;
  console.log(`${held} of ${results.length} scenarios hold`);
  if (results.length === 0) process.exitCode = 1;
} finally {
  await installation.stop();
}

interface Result {
  readonly line: string;
  readonly name: string;
  readonly holds: boolean;
}

/** The scenarios of one side, from the program's summary. */
function conformance(side: string, ...args: ReadonlyArray<string>): Promise<ReadonlyArray<Result>> {
  const main = join(folder, "node_modules/@modelcontextprotocol/conformance/dist/index.js");
  const only = values.scenario === undefined ? [] : ["--scenario", values.scenario];
  return new Promise((resolve) => {
    execFile(values.node, [main, side, ...args, ...only], { cwd: folder }, (_error, out, err) => {
      const lines = [...(out + err).matchAll(/^([\u2713\u2717]) (\S+): .*$/gm)];
      if (lines.length === 0) console.log(out + err);
      resolve(
        lines.map(([text, mark, name]) => ({
          line: `${side}: ${text}`,
          name: name!,
          holds: mark === "\u2713",
        })),
      );
    });
  });
}
