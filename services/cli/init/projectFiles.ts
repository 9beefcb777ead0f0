/**
 * The files of a new project, as texts: pure, from one row of `starters` and the user's choices.
 * `init/init` writes them. Every text is complete: its code compiles under `strict`,
 * serves and passes its own test.
 */
import type { Starter } from "./starters.ts";

export interface ProjectChoices {
  /** The project's name, as npm accepts it. */
  readonly name: string;
  readonly starter: Starter;
  /** Adds a page that shows an agent live. */
  readonly page: boolean;
  /** TypeScript's `strict`. */
  readonly strict: boolean;
  /** What `dependencies` names for this package, e.g. `^0.32.0` or `file:../turnkeep.tgz`. */
  readonly packageSpec: string;
  /** Version ranges of the development tools. */
  readonly tools: Readonly<Record<"typescript" | "vitest" | "@types/node", string>>;
}

interface ProjectFile {
  /** Relative to the project's folder. */
  readonly path: string;
  readonly text: string;
}

export function projectFiles(choices: ProjectChoices): ReadonlyArray<ProjectFile> {
  return [
    { path: "server.ts", text: server(choices) },
    { path: "server.test.ts", text: serverTest(choices) },
    ...(choices.page ? [{ path: "page.html", text: page(choices) }] : []),
    { path: "vitest.config.ts", text: VITEST_CONFIG },
    { path: "package.json", text: json(manifest(choices)) },
    { path: "tsconfig.json", text: json(tsconfig(choices)) },
    { path: ".gitignore", text: "node_modules/\n.agents/\n.env\n.env.*\n!.env.example\n" },
    { path: ".env.example", text: envExample(choices) },
    { path: "README.md", text: readme(choices) },
  ];
}

const VITEST_CONFIG = `import agents from "turnkeep/vite";
import { defineConfig } from "vitest/config";

export default defineConfig({ plugins: [agents()] }); // compiles decorators, such as @callable()
`;

const json = (value: object): string => JSON.stringify(value, undefined, 2) + "\n";

const manifest = ({ name, packageSpec, tools }: ProjectChoices): object => ({
  name,
  version: "0.1.0",
  private: true,
  type: "module",
  scripts: { start: "turnkeep dev server.ts", test: "vitest run", check: "tsc" },
  dependencies: { turnkeep: packageSpec },
  devDependencies: tools,
});

const tsconfig = ({ strict }: ProjectChoices): object => ({
  compilerOptions: {
    target: "es2023",
    lib: ["es2024", "esnext.disposable", "dom", "dom.iterable"],
    module: "nodenext",
    moduleResolution: "nodenext",
    types: ["node"],
    strict,
    allowImportingTsExtensions: true,
    verbatimModuleSyntax: true,
    skipLibCheck: true,
    noEmit: true,
  },
  include: ["*.ts"],
});

const kebab = (name: string): string => name.replace(/(?<=.)[A-Z]/g, "-$&").toLowerCase();

function server({ starter, page }: ProjectChoices): string {
  const { agentClass, entityNoun, verifier, secret, entity, entityImports, path } = starter;
  const imports = [...entityImports, verifier, "webhook"].toSorted();
  return `/**
 * One agent for each ${entityNoun}: it records the events that arrive for it, and pushes its state
 * to every client that is connected.
 */
${page ? 'import { readFileSync } from "node:fs";\n' : ""}import { Agent, getCurrentAgent, type Module } from "turnkeep";
import { ${imports.join(", ")} } from "turnkeep/webhooks";

export interface State {
  readonly events: number;
  readonly last: string | null;
}

export class ${agentClass} extends Agent<Record<string, unknown>, State> {
  override initialState: State = { events: 0, last: null };

  override async onStart(): Promise<void> {
    this.sql\`CREATE TABLE IF NOT EXISTS events (
      id INTEGER PRIMARY KEY, type TEXT NOT NULL, payload TEXT NOT NULL
    )\`;
    await this.schedule("0 9 * * *", "forgetOldEvents"); // every day at nine (UTC), registered once
  }

  /** A verified webhook. State and rows are stored together, exactly once. */
  override async onRequest(request: Request): Promise<Response> {
    const type = getCurrentAgent().webhook?.event ?? "event";
    this.sql\`INSERT INTO events (type, payload) VALUES (\${type}, \${await request.text()})\`;
    this.setState({ events: this.state.events + 1, last: type });
    return new Response("OK");
  }

  async forgetOldEvents(): Promise<void> {
    this.sql\`DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - 1000\`;
  }
}
${page ? '\nconst PAGE = readFileSync(new URL("./page.html", import.meta.url), "utf8");\n' : ""}
export default {
  webhooks: [
    webhook("${path}", {
      agent: ${agentClass},
      verify: ${verifier}({ secret: "${secret}" }), // the name of an environment variable
      entity: ${entity},
    }),
  ],
${
  page
    ? `
  async fetch(request, _env, gateway) {
    if (new URL(request.url).pathname === "/")
      return new Response(PAGE, { headers: { "content-type": "text/html; charset=utf-8" } });
    return (await gateway.routeAgentRequest(request)) ?? new Response("Not found", { status: 404 });
  },
`
    : ""
}} satisfies Module;
`;
}

function serverTest({ starter }: ProjectChoices): string {
  const { agentClass, verifier, secret, path, sample } = starter;
  const { event, agentName } = sample;
  const options = verifier === "hmac" ? "" : `, { id: "1"${event ? `, event: "${event}"` : ""} }`;
  const times = verifier === "hmac" ? 1 : 2;
  return `import { expect, it } from "vitest";
import { testAgents } from "turnkeep/testing";
import * as server from "./server.ts";

const SECRET = "any text will do";
const EVENT = JSON.stringify(${JSON.stringify(sample.body)});

it("counts a delivery once${times > 1 ? ", however often it is sent" : ""}", async () => {
  await using test = await testAgents({ module: server, env: { ${secret}: SECRET } });
  const headers = test.sign.${verifier}(EVENT, SECRET${options});
  for (let n = 0; n < ${times}; n++)
    expect((await test.webhook("${path}", EVENT, headers)).status).toBe(200);
  const agent = test.agent(server.${agentClass}, "${agentName}");
  expect(await agent.state()).toEqual({ events: 1, last: "${event || "event"}" });
});

it("refuses a forged signature", async () => {
  await using test = await testAgents({ module: server, env: { ${secret}: SECRET } });
  const forged = test.sign.${verifier}(EVENT, "a guess"${options});
  expect((await test.webhook("${path}", EVENT, forged)).status).toBe(401);
});
`;
}

const envExample = ({ starter }: ProjectChoices): string =>
  `# Copy to .env. Without it, "npm start" generates a secret for this folder.
# ${starter.settings}
${starter.secret}=
`;

const readme = ({ name, starter, page }: ProjectChoices): string => `# ${name}

One agent for each ${starter.entityNoun}, on [turnkeep](https://www.npmjs.com/package/turnkeep).

\`\`\`sh
npm install
npm start     # serves on http://localhost:8787${starter.curl ? " and prints a signed curl to try" : ""}
npm test
npm run check # types
\`\`\`

- \`server.ts\`: the agent and its webhook route. It is reloaded when you save it.
- \`server.test.ts\`: the same code in your test's process, in virtual time.
${page ? `- \`page.html\`: an agent's state, live: http://localhost:8787/?name=${starter.sample.agentName}\n` : ""}- \`.env.example\`: the secret that requests are verified with. Set it at
  ${starter.settings}; the URL is \`https://<your host>${starter.path}\`.

\`.agents/\` has the data of \`npm start\`. Remove it to start empty.
`;

const page = ({ starter }: ProjectChoices): string => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width" />
    <title>${starter.agentClass}</title>
    <style>
      body { font: 16px/1.5 system-ui; max-width: 40rem; margin: 3rem auto; padding: 0 1rem }
      pre { background: #8881; padding: 1rem; border-radius: 0.5rem }
    </style>
  </head>
  <body>
    <h1 id="name"></h1>
    <p id="status">Connecting…</p>
    <pre id="state"></pre>
    <script type="module">
      const name = new URLSearchParams(location.search).get("name") ?? "${starter.sample.agentName}";
      const show = (id, text) => (document.getElementById(id).textContent = text);
      show("name", name);
      function connect() {
        const url = location.origin.replace(/^http/, "ws") + "/agents/${kebab(starter.agentClass)}/" + encodeURIComponent(name);
        const socket = new WebSocket(url);
        socket.onopen = () => show("status", "Live: this page follows the agent's state.");
        socket.onmessage = ({ data }) => {
          const message = JSON.parse(data);
          if (message.type === "cf_agent_state") show("state", JSON.stringify(message.state, null, 2));
        };
        socket.onclose = () => {
          show("status", "Disconnected. Trying again …");
          setTimeout(connect, 1000);
        };
      }
      connect();
    </script>
  </body>
</html>
`;
