import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { DevProcess } from "./DevProcess.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MODULE = (says: string): string => `
  import { Agent } from "agents";
  import { webhook, github, stripe, body, path } from "agents/webhooks";
  export class Repo extends Agent { static says = ${JSON.stringify(says)}; }
  export default { webhooks: [
    webhook("/webhooks/github", { agent: Repo, verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }), entity: body("repository.full_name") }),
    webhook("/webhooks/stripe/:id", { agent: Repo, verify: stripe({ secret: "SECRET" }), entity: path("id", { trust: true }) }),
  ] };
`;
const FREE = ["--port", "0", "--admin-port", "0"];

let folder: string;
let running: DevProcess[];
const start = (args: readonly string[], env: Readonly<Record<string, string>> = {}): DevProcess => {
  const process_ = new DevProcess(args, folder, env);
  running.push(process_);
  return process_;
};
const at = (path: string): string => join(folder, path);
const get = async (url: string): Promise<unknown> => (await fetch(url)).json();

beforeEach(() => {
  folder = tempFolder("dev").path;
  running = [];
  writeFileSync(at("server.ts"), MODULE("one"));
});
afterEach(async () => {
  await Promise.all(running.map((process_) => process_.kill()));
});

describe("agents dev", () => {
  it("finds the module, prints where everything is, and leaves a note for other commands while it runs", async () => {
    const dev = start(["dev", ...FREE]);
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    const metrics = await dev.printed(/^ {2}metrics +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    expect(await get(url)).toMatchObject({ says: "one" });
    expect(await (await fetch(metrics)).text()).toContain("\nstarts_total 1\n");
    expect((await fetch(metrics.replace("metrics", "readyz"))).status).toBe(200);
    const note = JSON.parse(readFileSync(at(".agents/dev.json"), "utf8")) as Record<
      string,
      unknown
    >;
    expect(note).toEqual({
      url,
      natsUrl: "nats://own",
      pid: dev.child.pid,
      startedAt: expect.stringMatching(/./) as string,
      namespace: "agents",
    });

    dev.child.kill("SIGINT");
    expect(await dev.ended).toBe(0);
    expect(dev.out).toMatch(/Stopping …\nstop\nStopped\. The data is kept in \.agents\.\n$/);
    expect(existsSync(at(".agents/dev.json"))).toBe(false);
    expect(dev.errors).toBe("");
  });

  it("generates missing secrets, keeps them, and prints a curl signed with them", async () => {
    writeFileSync(at(".env"), "SECRET=from-file");
    const first = start(["dev", ...FREE]);
    const url = await first.printed(/^ {2}url +(\S+)/m);
    await first.printed(/Press Ctrl-C to stop/);
    expect(await get(url)).toMatchObject({ env: "from-file" });
    const kept = readFileSync(at(".agents/dev-secrets.env"), "utf8");
    expect(kept).toMatch(
      /^GITHUB_WEBHOOK_SECRET=[A-Za-z0-9+/]{40}\nAPPROVAL_SECRET=[A-Za-z0-9+/]{40}\n$/,
    );
    expect(statSync(at(".agents/dev-secrets.env")).mode & 0o077).toBe(0);
    const secret = /=(.*)/.exec(kept)![1]!;
    const body = /-d '(.*)'/.exec(first.out)![1]!;
    const signature = createHmac("sha256", secret).update(body).digest("hex");
    expect(first.out).toContain(`curl -i ${url}/webhooks/github`);
    expect(first.out).toContain(`-H 'x-hub-signature-256: sha256=${signature}'`);
    first.child.kill("SIGTERM");
    expect(await first.ended).toBe(0);

    const second = start(["dev", ...FREE]);
    await second.printed(/secrets +(GITHUB_WEBHOOK_SECRET): generated/);
    expect(readFileSync(at(".agents/dev-secrets.env"), "utf8")).toBe(kept);
  });

  it("reloads the module when it changes, and keeps the old code while the new one can't be loaded", async () => {
    const dev = start(["dev", ...FREE]);
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    writeFileSync(at("server.ts"), MODULE("two"));
    await dev.printed(/server\.ts changed: reloaded/);
    expect(await get(url)).toMatchObject({ says: "two" });
    writeFileSync(at("server.ts"), "export class {");
    await dev.printed(
      /can't be loaded\. The previous code keeps running\.\nsyntax error\n.*server\.ts:1:/,
    );
    expect(await get(url)).toMatchObject({ says: "two" });
    writeFileSync(at("server.ts"), MODULE("three"));
    await vi.waitFor(async () => expect(await get(url)).toMatchObject({ says: "three" }), 60_000);
  });

  it("generates the secret of a webhook that is added while it runs, and says where it is", async () => {
    const webhooks = MODULE("two");
    writeFileSync(at("server.ts"), webhooks.replace(/^ *webhook\("\/webhooks\/stripe.*$/m, ""));
    const dev = start(["dev", ...FREE]);
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    expect(await get(url)).not.toHaveProperty("env");
    writeFileSync(at("server.ts"), webhooks);
    await dev.printed(/server\.ts changed: reloaded/);
    expect(dev.out).toContain("\nSECRET: generated for development, in .agents/dev-secrets.env\n");
    const [, secret] = /^SECRET=(.+)$/m.exec(readFileSync(at(".agents/dev-secrets.env"), "utf8"))!;
    expect(await get(url)).toEqual({ says: "two", env: secret });

    writeFileSync(at(".env"), "SECRET=");
    writeFileSync(at("server.ts"), MODULE("three"));
    await dev.printed(/can't be loaded\. The previous code keeps running\.\n.*SECRET/);
    expect(await get(url)).toEqual({ says: "two", env: secret });
  });

  it("reads the .env files again when the module changes: what is new, changed and gone", async () => {
    const says = (n: number) =>
      MODULE("it").replace(
        '"it"',
        `[${n}, process.env.SECRET, process.env.OWN, process.env.NEW, process.env.GONE].join()`,
      );
    writeFileSync(at("server.ts"), says(1));
    writeFileSync(at(".env"), "SECRET=one\nOWN=file\nGONE=old");
    const dev = start(["dev", ...FREE], { OWN: "process" });
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    expect(await get(url)).toEqual({ says: "1,one,process,,old", env: "one" });
    writeFileSync(at(".env"), "SECRET=two\nOWN=other\nNEW=new");
    writeFileSync(at("server.ts"), says(2));
    await dev.printed(/server\.ts changed: reloaded/);
    expect(await get(url)).toEqual({ says: "2,two,process,new,", env: "two" });
  });

  it("reloads the module when a .env file alone is made, changes and goes", async () => {
    const both = "[process.env.SECRET, env.SECRET].join()";
    const text = MODULE("it").replace('"it"', both);
    writeFileSync(at("server.ts"), `import { env } from "cloudflare:workers";${text}`);
    const dev = start(["dev", ...FREE]);
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    const says = (value: string): Promise<void> =>
      vi.waitFor(async () => expect(await get(url)).toMatchObject({ says: value }), 60_000);
    await says(",");
    writeFileSync(at(".env"), "SECRET=one");
    await says("one,one");
    expect(await get(url)).toMatchObject({ env: "one" });
    await dev.printed(/^\.env changed: reloaded$/m);
    // A file that can't be used does not end the watch.
    rmSync(at(".env"));
    mkdirSync(at(".env"));
    await dev.printed(
      /\.env changed, but can't be loaded\. The previous code keeps running\.\n.*EISDIR/,
    );
    rmdirSync(at(".env"));
    writeFileSync(at(".env"), "SECRET=two");
    await says("two,two");
    rmSync(at(".env"));
    await says(",");
  });

  it("says with a tunnel which routes would refuse its URL, because their verifier has another", async () => {
    writeFileSync(
      at("server.ts"),
      `import { Agent } from "agents";
      import { webhook, twilio, constant } from "agents/webhooks";
      export class Repo extends Agent {}
      const route = (path, options) =>
        webhook(path, { agent: Repo, verify: twilio({ secret: "SECRET", ...options }), entity: constant("a") });
      export default { webhooks: [
        route("/none"),
        route("/same", { url: "https://dev.example.com" }),
        route("/other", { url: "https://me:hunter2@hooks.example.com" }),
        route("/unset", { url: "PUBLIC_URL" }),
      ] };`,
    );
    const dev = start(["dev", ...FREE, "--tunnel", "https://dev.example.com"]);
    await dev.printed(/Press Ctrl-C to stop/);
    const told = dev.out.slice(dev.out.indexOf("Enter this URL"), dev.out.indexOf("\n\nPress"));
    expect(told.split("\n").filter((line) => /^ {2}\S/.test(line))).toEqual([
      "  https://dev.example.com/none",
      "  https://dev.example.com/same",
      "  https://dev.example.com/other",
      "  Its webhooks are refused: twilio({ url }) makes the signed URL https://REDACTED@hooks.example.com/other.",
      "  Remove that option, or set it to the tunnel's URL.",
      "  https://dev.example.com/unset",
      "  Its webhooks are answered 500: twilio: PUBLIC_URL is not a URL: set it to the URL that is configured at the provider.",
    ]);
  });

  it("says at its first start that the module's top level may wait without end", async () => {
    writeFileSync(at("server.ts"), `await new Promise(() => undefined);\n${MODULE("one")}`);
    const dev = start(["dev", ...FREE]);
    await dev.printed(/server\.ts is still loading: does its top level await something/);
    expect(await dev.ended).toBe(1);
    expect(dev.errors).toContain("(exit code 13, as of a top-level await that never ends)");
  });

  it("names the line of the module's top level that blocks its process", async () => {
    writeFileSync(at("server.ts"), `${MODULE("one")}\nfor (;;);\n`);
    const line = MODULE("one").split("\n").length + 1;
    const dev = start(["dev", ...FREE]);
    await dev.printed(
      new RegExp(`^server\\.ts is still loading: \\S+server\\.ts:${line}:\\d+ blocks`, "m"),
    );
  });

  it("names the line of the module's top level that ends its process", async () => {
    writeFileSync(at("server.ts"), `${MODULE("one")}\nprocess.exit(3);\n`);
    const line = MODULE("one").split("\n").length + 1;
    const dev = start(["dev", ...FREE]);
    expect(await dev.ended).toBe(1);
    expect(dev.errors).toMatch(
      new RegExp(
        `^server\\.ts ended its process by process\\.exit\\(\\) while loading:\n[^]*?server\\.ts:${line}:`,
        "m",
      ),
    );
  });

  it("goes on with a change although the code before it waits at its top level without end", async () => {
    writeFileSync(at("server.ts"), MODULE("one"));
    const dev = start(["dev", ...FREE]);
    const url = await dev.printed(/^ {2}url +(\S+)/m);
    await dev.printed(/Press Ctrl-C to stop/);
    writeFileSync(at("waits.ts"), "await new Promise(() => undefined);");
    writeFileSync(at("server.ts"), `import "./waits.ts";\n${MODULE("two")}`);
    await dev.printed(
      /server\.ts changed, but is still loading: .* The previous code keeps running/,
    );
    expect(await get(url)).toMatchObject({ says: "one" });
    // The file that waits is followed, although nothing that was loaded imports it.
    writeFileSync(at("waits.ts"), "export {};");
    await dev.printed(/waits\.ts changed: reloaded/);
    expect(await get(url)).toMatchObject({ says: "two" });
  });

  it("ends at once on a second Ctrl-C; two signals of one key press count as one", async () => {
    const dev = start(["dev", ...FREE], { HANG: "1" });
    await dev.printed(/Press Ctrl-C to stop/);
    dev.child.kill("SIGINT");
    dev.child.kill("SIGINT");
    await dev.printed(/^stop$/m);
    // Presses until one counts as a second: how far apart two must be is the process's to say.
    const pressing = setInterval(() => dev.child.kill("SIGINT"), 50);
    const code = await dev.ended.finally(() => clearInterval(pressing));
    expect(code).toBe(130);
  });

  it("stopped while it starts, it says so and exits with 130, also where its worker's end is seen first", async () => {
    const forever = "setInterval(() => undefined, 1_000);\nawait new Promise(() => undefined);\n";
    writeFileSync(at("server.ts"), `process.kill(process.pid, "SIGINT");\n${forever}${MODULE("one")}`); // prettier-ignore
    const dev = start(["dev", ...FREE]);
    expect(await dev.ended).toBe(130);
    expect(dev.errors).toContain("Stopped before serving.");
  });

  it("stopped by a signal to itself alone, it does not wait for a module that never loads", async () => {
    const forever = "setInterval(() => undefined, 1_000);\nawait new Promise(() => undefined);\n";
    writeFileSync(at("server.ts"), `${forever}${MODULE("one")}`);
    const dev = start(["dev", ...FREE]);
    await dev.printed(/server\.ts is still loading/);
    dev.child.kill("SIGTERM");
    expect(await dev.ended).toBe(143);
    expect(dev.errors).toContain("Stopped before serving.");
  });

  it("says that a module's code has ended the process, whatever exit code that has", async () => {
    for (const code of [0, 13]) {
      writeFileSync(at("server.ts"), `process.exit(${code});\n${MODULE("one")}`);
      const dev = start(["dev", ...FREE]);
      expect(await dev.ended).toBe(1);
      expect(dev.errors).toContain(`ended before it served (exit code ${code}`);
    }
  });

  it("refuses a data folder in use; the file of a killed process has no effect", async () => {
    const first = start(["dev", ...FREE]);
    await first.printed(/Press Ctrl-C to stop/);
    const second = start(["dev", ...FREE]);
    expect(await second.ended).toBe(1);
    expect(second.err).toContain(`process ${first.child.pid}`);
    await first.kill();
    expect(existsSync(at(".agents/dev.json"))).toBe(true);
    await start(["dev", ...FREE]).printed(/Press Ctrl-C to stop/);
  });

  it("reports a missing or invalid module with the remedy", async () => {
    writeFileSync(at("server.ts"), "export const a = 1;");
    const wrong = start(["dev", ...FREE]);
    expect(await wrong.ended).toBe(1);
    expect(wrong.err).toContain("no agent class is exported");
    rmSync(at("server.ts"));
    const none = start(["dev", ...FREE]);
    expect(await none.ended).toBe(2);
    expect(none.err).toContain("No module was given and none was found here");
  });

  it("stops the broker that it started if the module can't be loaded", async () => {
    writeFileSync(at("server.ts"), "export const broken = ;");
    const dev = start(["dev", ...FREE]);
    expect(await dev.ended).toBe(1);
    expect(dev.out).toBe("abandoned\n");
    expect(dev.err).toContain("syntax error");
  });

  it("exits with 1 when a start fails, and frees the admin port", async () => {
    const dev = start(["dev", ...FREE], { FAIL_START: "1" });
    expect(await dev.ended).toBe(1);
    expect(dev.err).toContain("no broker");
  });
});

describe("agents gateway and host", () => {
  const args = ["--nats", "nats://x", "--admin-port", "0"];

  it("log one JSON object per line on stderr, and stop on SIGTERM with exit code 0", async () => {
    const gateway = start(["gateway", "server.ts", "--port", "0", ...args], { SECRET: "s", GITHUB_WEBHOOK_SECRET: "g" }); // prettier-ignore
    const line = JSON.parse(await gateway.printed(/^\{.*gateway serves.*\}$/m)) as Record<
      string,
      unknown
    >;
    expect(line).toMatchObject({
      level: "info",
      module: "server.ts",
      agents: "Repo",
      namespace: "agents",
    });
    gateway.child.kill("SIGTERM");
    expect(await gateway.ended).toBe(0);
    expect(gateway.err).toContain('"message":"gateway stopped"');
    expect(gateway.out).toBe("stop\n");
    expect(existsSync(at(".agents/dev.json"))).toBe(false);
  });

  it("a gateway without its webhook secrets does not start; a host needs none", async () => {
    const gateway = start(["gateway", "server.ts", "--port", "0", ...args], { SECRET: "s" });
    expect(await gateway.ended).toBe(1);
    expect(gateway.errors).toMatch(/^GITHUB_WEBHOOK_SECRET not set, but server\.ts verifies/);
    await start(["host", "server.ts", ...args]).printed(/host serves/);
  });

  it("an empty secret is reported by its variable's name, in dev and in a gateway", async () => {
    const empty = { GITHUB_WEBHOOK_SECRET: "", SECRET: "s" };
    for (const line of [
      ["dev", ...FREE],
      ["gateway", "server.ts", "--port", "0", ...args],
    ]) {
      const run = start(line, empty);
      expect(await run.ended).toBe(1);
      expect(run.err).toMatch(/^\/webhooks\/github: github: GITHUB_WEBHOOK_SECRET is empty: set /m);
    }
  });

  it("a gateway does not start where the variable of a signed URL has none; dev does when it is not set", async () => {
    const code = MODULE("one")
      .replace(", stripe,", ", twilio,")
      .replace('stripe({ secret: "SECRET" })', 'twilio({ secret: "SECRET", url: "PUBLIC_URL" })');
    writeFileSync(at("server.ts"), code);
    const secrets = { GITHUB_WEBHOOK_SECRET: "g", SECRET: "s" };
    const gateway = ["gateway", "server.ts", "--port", "0", ...args];
    const unset = start(gateway, secrets);
    expect(await unset.ended).toBe(1);
    expect(unset.err).toMatch(/^PUBLIC_URL not set, but server\.ts verifies webhooks with it/m);
    for (const line of [gateway, ["dev", ...FREE]]) {
      const run = start(line, { ...secrets, PUBLIC_URL: "hooks.example.com" });
      expect(await run.ended).toBe(1);
      expect(run.err).toMatch(/^\/\S+: twilio: PUBLIC_URL is not a URL: set it to the URL /m);
    }
    await start(["dev", ...FREE], secrets).printed(/Press Ctrl-C to stop/);
  });

  it("variables of wrangler.jsonc are set, for a gateway and in dev", async () => {
    const vars = { GITHUB_WEBHOOK_SECRET: "g", SECRET: "s" };
    writeFileSync(at("wrangler.jsonc"), JSON.stringify({ vars }));
    await start(["gateway", "server.ts", "--port", "0", ...args]).printed(/gateway serves/);
    const dev = start(["dev", ...FREE]);
    await dev.printed(/Press Ctrl-C to stop/);
    expect(dev.out).not.toMatch(/generated for development/);
  });

  it("one secret of a rotation is enough: the old variable may be absent", async () => {
    const code = MODULE("one").replace('secret: "SECRET"', 'secret: ["NEW", "OLD"]');
    writeFileSync(at("server.ts"), code);
    for (const set of ["NEW", "OLD"]) {
      const gateway = start(["gateway", "server.ts", "--port", "0", ...args], { GITHUB_WEBHOOK_SECRET: "g", [set]: "s" }); // prettier-ignore
      await gateway.printed(/gateway serves/);
      gateway.child.kill("SIGTERM");
      await gateway.ended;
    }
    const neither = start(["gateway", "server.ts", "--port", "0", ...args], { GITHUB_WEBHOOK_SECRET: "g" }); // prettier-ignore
    expect(await neither.ended).toBe(1);
    expect(neither.err).toMatch(/NEW or OLD not set, but server\.ts verifies/);
    const dev = start(["dev", ...FREE], { OLD: "s" });
    await dev.printed(/Press Ctrl-C to stop/);
    expect(readFileSync(at(".agents/dev-secrets.env"), "utf8")).toMatch(
      /^GITHUB_WEBHOOK_SECRET=\S+\nAPPROVAL_SECRET=\S+\n$/,
    );
  });
});
