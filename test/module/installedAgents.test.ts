/** The switch in `package.json` by which `agents` is the package that an app has installed. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeEach, expect, it } from "vitest";
import { LoaderProcess } from "./LoaderProcess.ts";
import { tempFolder } from "../kit/tempFolder.ts";

let folder: string;
// Its own process: which package it is is decided there once.
const loader = new LoaderProcess("source");
afterAll(() => loader.stop());
beforeEach(() => {
  folder = tempFolder("installed").path;
});
const put = (path: string, text: string): string => {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
};

/** A package of that name, one that uses it, and an app. */
function app(setting: unknown): string {
  const manifest = `{ "type": "module", "exports": "./index.js" }`;
  put("package.json", JSON.stringify({ type: "module", turnkeep: setting }));
  put("node_modules/agents/package.json", manifest);
  put(
    "node_modules/agents/index.js",
    `import { DurableObject } from "cloudflare:workers";
     import { EmailMessage } from "cloudflare:email";
     export class Agent extends DurableObject {}
     export const who = "installed";
     export const to = new EmailMessage("a@x.com", "b@x.com", "raw").to;`,
  );
  put("node_modules/chat/package.json", manifest);
  put("node_modules/chat/index.js", `export { who as chatWho } from "agents";`);
  return put(
    "src/server.js",
    `import { Agent, who, to } from "agents";
     import { chatWho } from "chat";
     import { body } from "turnkeep/webhooks";
     if (who !== chatWho || to !== "b@x.com" || typeof body !== "function") throw new Error("mixed");
     if (typeof WebSocket !== "function") throw new Error("no WebSocket");
     if (!new URLPattern({ pathname: "/mcp/*" }).test("http://x.com/mcp/a")) throw new Error("no path");
     export class Mine extends Agent {}`,
  );
}

it("the package.json option has one value; any other is refused", async () => {
  const { error } = await loader.load(app({ agents: "reference" }));
  expect(error?.message).toMatch(/package\.json: "turnkeep" has "agents": "reference"\. The only value is "installed"/); // prettier-ignore
});

it("with the option, agents resolves to the installed package, for its packages too; turnkeep stays this package", async () => {
  const report = await loader.load(app({ agents: "installed" }));
  expect(report.error).toBeUndefined();
  expect(report.agents).toEqual(["Mine"]);
});
