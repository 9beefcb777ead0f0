/**
 * The site of these pages: `npm run docs:site` builds it into `.site/html`, with a search that runs in the
 * reader's browser and asks nobody. The sidebar follows the order in which a reader needs the pages.
 */
const page = (text: string, link: string) => ({ text, link });
const guide = (text: string, name: string) => page(text, `/guides/${name}`);
const internal = (text: string, name: string) => page(text, `/internals/${name}`);

export default {
  title: "turnkeep",
  description: "Stateful agents for webhooks, WebSockets and schedules",
  outDir: "../html",
  cleanUrls: true,
  rewrites: { "README.md": "index.md" },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: [
      {
        text: "Guides",
        items: [
          guide("Agents", "agents"),
          guide("Limits and failures", "limits"),
          guide("Fibers", "fibers"),
          guide("Sub-agents", "sub-agents"),
          guide("Webhooks", "webhooks"),
          guide("Steps", "steps"),
          guide("Streams", "streams"),
          guide("Schedules", "schedules"),
          guide("Workflows", "workflows"),
          guide("Approvals", "approvals"),
          guide("Queries", "queries"),
          guide("Budgets", "budgets"),
          guide("Clients", "clients"),
          guide("Email", "email"),
          guide("MCP", "mcp"),
          guide("Durable Objects", "durable-objects"),
          guide("Access", "access"),
          guide("Testing", "testing"),
          guide("Configuration", "configuration"),
          guide("Coming from another system", "coming-from"),
          guide("Beside a web framework", "frameworks"),
          guide("Readers in other languages", "state-subjects"),
        ],
      },
      {
        text: "Running it",
        items: [
          page("Operations", "/operations"),
          page("Installing", "/operations/install"),
          page("Watching it", "/operations/watching"),
          page("When something is wrong", "/operations/trouble"),
          page("History, backups, single agents", "/operations/history"),
          page("Upgrades", "/operations/upgrades"),
          page("Scaling", "/scaling"),
          page("Security", "/security"),
        ],
      },
      {
        text: "Reference",
        items: [
          page("Interface", "/reference/interface"),
          page("Protocol", "/reference/protocol"),
          page("The package", "/reference/api/README"),
          page("Command line", "/reference/cli"),
          page("Glossary", "/glossary"),
        ],
      },
      {
        text: "How it works",
        collapsed: true,
        items: [
          internal("Processes and ports", "processes-and-ports"),
          internal("A turn", "a-turn"),
          internal("Delivery", "delivery"),
          internal("Ownership", "ownership"),
          internal("When a process is ended", "when-a-process-is-ended"),
          internal("Streams and formats", "streams-and-formats"),
          internal("Schedules and alarms", "schedules-and-alarms"),
          internal("Activation and snapshots", "activation-and-snapshots"),
          internal("History", "history"),
          internal("Erasing and carrying", "erasing-and-carrying"),
          internal("Queries", "queries"),
          internal("SQLite", "sqlite"),
          internal("The HTTP edge", "http-edge"),
          internal("The package", "package"),
          internal("Three walks", "walks"),
          internal("To change X, open Y", "map"),
          page("Decisions", "/decisions/README"),
        ],
      },
      {
        text: "Evidence",
        items: [
          page("Conformance", "/evidence/conformance"),
          page("Conformance, row by row", "/evidence/conformance-rows"),
          page("Reliability", "/evidence/reliability"),
          page("Findings", "/evidence/findings"),
          page("Performance", "/evidence/performance"),
        ],
      },
    ],
  },
};
