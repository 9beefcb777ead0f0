/**
 * What each folder of `services/` is. A new folder gets a line here; the tidy test says so.
 *
 * - `adapter`: implements core's ports on one dependency, which it is named after. May use the
 *   machine's clock where `clock` says why.
 * - `process`: a program; knows ports only. `main.ts` and `services/wiring/join*` join it with
 *   adapters.
 * - `part`: machinery of processes that hides no dependency worth a port. Clock as for adapters.
 * - `entry`: what users import.
 * - `client`: what browsers import; knows `schemas` only. The console's page also imports the types
 *   of what commands print.
 */
export type FolderKind = "adapter" | "process" | "part" | "entry" | "client";

export interface Folder {
  readonly kind: FolderKind;
  /** Why the machine's clock, timers or randomness may be used here. */
  readonly clock?: string;
}

const machine = "adapters live in the machine's time: acks, reconnects and expiries follow it";

export const SERVICE_FOLDERS: Readonly<Record<string, Folder>> = {
  nats: { kind: "adapter", clock: machine },
  natsServer: { kind: "adapter", clock: "supervises a real process: restarts wait in real time" },
  archive: { kind: "adapter" },
  memory: { kind: "adapter", clock: "the virtual clock starts from the machine's" },
  node: { kind: "adapter", clock: "it is the adapter of the Time port" },
  sqlite: { kind: "adapter", clock: machine },
  cronParser: { kind: "adapter", clock: "dates of the calendar are made here" },
  uws: { kind: "adapter", clock: "socket timeouts are the machine's" },
  nodeHttp: { kind: "adapter", clock: "socket timeouts are the machine's" },
  http: {
    kind: "part",
    clock: "what both HTTP adapters share: a server that stops waits in real time",
  },
  smtp: { kind: "adapter", clock: machine },
  mcp: { kind: "adapter", clock: machine },
  mcpAgent: { kind: "entry" },
  mcpHandler: { kind: "entry" },
  mcpClient: { kind: "entry" },
  lifecycle: { kind: "entry", clock: "ids of connections are random" },
  otel: { kind: "adapter" },
  gateway: { kind: "process" },
  host: { kind: "process" },
  mail: { kind: "process" },
  retention: { kind: "process" },
  console: { kind: "process" },
  cli: { kind: "process" },
  wiring: { kind: "part" },
  lock: {
    kind: "part",
    clock: "other processes live in real time: a dead holder's server is waited for",
  },
  admin: { kind: "part", clock: "a scrape gives up in real time" },
  env: { kind: "part" },
  workers: { kind: "part" },
  wrangler: { kind: "part" },
  watchdog: {
    kind: "part",
    clock: "beats of a thread are the machine's, and are looked for in real time",
  },
  module: { kind: "part" },
  ownPackage: { kind: "part" },
  platform: {
    kind: "part",
    clock: "scheduler.wait calls the setTimeout of the code that it is for",
  },
  agent: { kind: "entry" },
  webhooks: { kind: "entry" },
  schedule: { kind: "entry" },
  email: { kind: "entry" },
  workflows: { kind: "entry" },
  observability: { kind: "entry" },
  testing: { kind: "entry" },
  vite: { kind: "entry" },
  consolePage: { kind: "client", clock: "a browser has no Time service" },
  client: { kind: "client", clock: "a browser has no Time service" },
  react: { kind: "client", clock: "a browser has no Time service" },
};

/** Folders of tests that are not named after a folder of the sources, and what they hold. */
export const TEST_FOLDERS: Readonly<Record<string, string>> = {
  aiChat: "chats of the reference's own package, whose hosts are killed",
  attack: "what an outsider tries, over real sockets and processes",
  bench: "what is measured, beside what it is compared with",
  cluster: "three brokers",
  conformance: "the rules of each port, run against each adapter",
  deploy: "what `deploy/` ships, and an installation's upkeep",
  docs: "pages that are generated, or held against the code",
  examples: "what the examples promise",
  faults: "real processes that are killed, frozen, cut, filled and damaged",
  fuzz: "parsers of outside bytes",
  kit: "what suites share: installations, clients, a broker",
  membership: "hosts and gateways that come and go",
  package: "the package as it is published",
  page: "a real browser",
  reference: "the reference's own servers, from a checkout beside the project",
  replay: "journals of releases, and the past against what was live",
  firstHour: "what a new user does, from the packed tarball",
  sim: "hosts, gateways and a broker in virtual time",
  system: "a whole installation in one process",
  tidy: "the rules of the house",
  types: "what compiles, and what does not",
  upgrade: "two releases beside each other",
  year: "an installation that trims and archives for a year, in virtual time",
};

/** Single files that may use the machine's clock, and why; the rest of their folder may not. */
export const CLOCK_FILES: Readonly<Record<string, string>> = {
  "services/email/secureReply.ts": "a signature's age is told by the clock of who checks it",
  "services/mcpAgent/serveMcp.ts": "a route has no Time service, and begins sessions with new ids",
  "services/mcpAgent/WorkerTransport.ts":
    "the restoring request has an id that no client can know; the SDK makes the transport, not a layer",
  "services/webhooks/sign.ts": "plays the provider: a signature made now carries the real now",
  "services/workers/forkWorker.ts": "what a real process has reported is waited for in real time",
  "services/cli/main.ts":
    "the process ends by a timer that does not keep it, which the port has not",
  "services/testing/Driver.ts": "gives real work of agents under test some of the machine's time",
  "services/testing/virtualGlobals.ts": "puts virtual time in the place of the machine's",
};

/** Files that join a process with adapters; so does `testing`, although it is an entry. */
export const isJoin = (path: string): boolean =>
  /^services\/[^/]+\/main\.ts$/.test(path) ||
  /^services\/(?:wiring|testing)\/join\w+\.ts$/.test(path);
