/**
 * Declares the options that commands share, each with its environment variable and default, and
 * parses their text into values. They are declared once, so that `--help` and behaviour agree in
 * every command.
 */
import { availableParallelism } from "node:os";
import { InvalidArgumentError, Option } from "commander";
import { readOrigin } from "../../../core/http/origins.ts";
import { hostNameOf } from "../../../core/http/servedHosts.ts";
import { TURN_SECONDS_DEFAULT } from "../../../core/turn/TurnLimits.ts";
import { REQUEST_LINES, type RequestLines } from "../../../core/telemetry/RequestLog.ts";
import { WRITE_LIMITS_DEFAULT } from "../../../core/turn/WriteLimits.ts";
import { LOG_LEVELS } from "../../wiring/Joins.ts";
import { SMTP_PORT_DEFAULT } from "../../wiring/ProcessSettings.ts";
import { NAMESPACE_DEFAULT } from "../../../schemas/Subjects.ts";

const PORT_MAX = 65_535; // TCP's
/**
 * Other programs often use the default port of GitHub's and most tutorials' local servers. Users of
 * wrangler know this one.
 */
const GATEWAY_PORT_DEFAULT = 8787;

export const nats = (): Option =>
  new Option("--nats <url>", "NATS server or cluster; separate several URLs with commas").env(
    "NATS_URL",
  );

export const namespace = (): Option =>
  new Option(
    "--namespace <name>",
    `prefix of every subject and stream (default: ${NAMESPACE_DEFAULT})`,
  )
    .env("AGENTS_NAMESPACE")
    .argParser((text: string) => {
      if (/^[A-Za-z0-9_-]+$/.test(text)) return text;
      throw new InvalidArgumentError("Use letters, digits, _ and - only.");
    });

export const data = (): Option =>
  new Option("--data <folder>", "folder for local data").env("AGENTS_DATA").default(".agents");

export const json = (): Option => new Option("--json", "machine-readable output on stdout");

/** An hour: longer questions are not interactive. */
const STATEMENT_SECONDS_MAX = 3_600;

export const statementSeconds = (usual: number): Option =>
  new Option("--seconds <count>", "time limit of the statement")
    .default(usual)
    .argParser((text: string) => readWhole(text, 1, STATEMENT_SECONDS_MAX));

export const port = (): Option =>
  new Option("--port <port>", "port for HTTP and WebSockets; 0: any free port")
    .env("PORT")
    .default(GATEWAY_PORT_DEFAULT)
    .argParser(readPort);

/** Next to the gateway's default. */
const CONSOLE_PORT_DEFAULT = 8790;

export const consolePort = (flag: string, about: string): Option =>
  new Option(`${flag} <port>`, about)
    .env("AGENTS_CONSOLE_PORT")
    .default(CONSOLE_PORT_DEFAULT)
    .argParser(readPort);

export const smtpPort = (fallback?: number): Option => {
  const option = new Option(
    "--smtp-port <port>",
    `port for mail; 0: any free port${fallback === undefined ? ` (default: ${SMTP_PORT_DEFAULT} if the module receives mail)` : ""}`,
  )
    .env("AGENTS_SMTP_PORT")
    .argParser(readPort);
  return fallback === undefined ? option : option.default(fallback);
};

export const smtpRelay = (): Option =>
  new Option(
    "--smtp-relay <url>",
    "relay for mail that agents send: smtp://user:password@relay.example.com:587",
  ).env("SMTP_URL");

/** The options that only `agents mail` has. */
export const smtpOptions = (): ReadonlyArray<Option> => [
  new Option("--tls-cert <file>", "PEM certificate; enables STARTTLS").env("AGENTS_TLS_CERT"),
  new Option("--tls-key <file>", "PEM key of the certificate").env("AGENTS_TLS_KEY"),
  new Option("--smtp-size <MiB>", "largest accepted message (default: 25)")
    .env("AGENTS_SMTP_SIZE")
    .argParser((text: string) => readWhole(text, 1, SMTP_SIZE_MIB_MAX)),
  new Option("--smtp-rate <count>", "messages per minute from one address (default: 600)")
    .env("AGENTS_SMTP_RATE")
    .argParser((text: string) => readWhole(text, 1, 1_000_000)),
];

/** A message is kept in memory while it is received. */
const SMTP_SIZE_MIB_MAX = 150;

export const hostname = (fallback: string): Option =>
  new Option("--hostname <address>", "address to listen on")
    .env("AGENTS_HOSTNAME")
    .default(fallback);

export const publicUrl = (): Option =>
  new Option(
    "--public-url <url>",
    "the gateway's URL for callers, if there is a proxy in front of it",
  )
    .env("AGENTS_PUBLIC_URL")
    .argParser((text: string) => {
      if (/^https?:\/\/[^/?#@\s]+\/?$/.test(text) && URL.canParse(text))
        return text.replace(/\/$/, "");
      throw new InvalidArgumentError("Use scheme and host only, as in https://hooks.example.com.");
    });

export const tunnel = (): Option =>
  new Option(
    "--tunnel <command|url>",
    "make the server reachable from outside: a tunnel command to run, in which {url} and {port} stand for the local server's, or the URL of a running tunnel; its URL becomes the public URL",
  );

export const from = (): Option =>
  new Option(
    "--from <url>",
    "NATS server or cluster of an installation to follow: webhooks that its agents have processed run on local forks of them; the installation is only read, and nothing is sent from this process",
  ).env("AGENTS_FROM");

export const allowedHosts = (): Option =>
  new Option(
    "--allowed-hosts <names>",
    "names to answer to in the Host header, besides loopback names and the public URL's; separate with commas",
  )
    .env("AGENTS_ALLOWED_HOSTS")
    .argParser((text: string) =>
      readList(text, (name) => hostNameOf(name), "names or addresses, as in agents.internal"),
    );

export const allowedOrigins = (): Option =>
  new Option(
    "--allowed-origins <origins>",
    "origins whose pages may reach agents, besides the module's allowedOrigins; separate with commas; *: all",
  )
    .env("AGENTS_ALLOWED_ORIGINS")
    .argParser((text: string) =>
      readList(text, readOrigin, "origins as browsers send them, as in https://app.example.com"),
    );

export const adminPort = (): Option =>
  new Option("--admin-port <port>", "private port: /healthz, /readyz, /metrics; 0: any free port")
    .env("AGENTS_ADMIN_PORT")
    .default(0)
    .argParser(readPort);

export const adminHostname = (): Option =>
  new Option("--admin-hostname <address>", "address of the private port")
    .env("AGENTS_ADMIN_HOSTNAME")
    .default("127.0.0.1");

export const requireDurable = (): Option =>
  new Option(
    "--require-durable",
    "refuse a broker that could lose acknowledged messages in a power failure",
  ).env("AGENTS_REQUIRE_DURABLE");

export const groupCommit = (): Option =>
  new Option(
    "--group-commit <when>",
    "store concurrent writes of many agents as one batch: faster if the broker syncs every write, slower otherwise",
  )
    .env("AGENTS_GROUP_COMMIT")
    .choices(["auto", "on", "off"])
    .default("auto");

/** With less, the process itself leaves no memory for agents. */
const MEMORY_MIB_MIN = 64;
/** A terabyte. It guards against bytes given as MiB. */
const MEMORY_MIB_MAX = 1_048_576;

export const memory = (): Option =>
  new Option(
    "--memory <MiB>",
    "memory for agents; above three quarters of it, the longest idle agents hibernate earlier (default: half of the machine's or container's memory, shared by the workers)",
  )
    .env("AGENTS_MEMORY")
    .argParser((text: string) => readWhole(text, MEMORY_MIB_MIN, MEMORY_MIB_MAX));

/** Some 200,000 small databases, and little beside a server's disk. */
export const IMAGE_CACHE_MIB = 8_192;

export const imageCache = (): Option =>
  new Option(
    "--image-cache <MiB>",
    `disk space for local images of agents that are not in memory; past it, those that were used longest ago are removed; 0: no limit (default: ${IMAGE_CACHE_MIB}, shared by the workers)`,
  )
    .env("AGENTS_IMAGE_CACHE")
    .argParser((text: string) => readWhole(text, 0, MEMORY_MIB_MAX));

/** Longer than any turn should hold a thread that others wait for. */
const CPU_SECONDS_MAX = 3_600;
/** Much more than a webhook's JSON, SQL and cryptography take, and short enough to wait for. */
export const CPU_SECONDS = 5;

export const cpuSeconds = (): Option =>
  new Option(
    "--cpu-seconds <seconds>",
    `seconds for which a turn may block its process before the process is ended; 0: no limit (default: ${CPU_SECONDS})`,
  )
    .env("AGENTS_CPU_SECONDS")
    .argParser((text: string) => readWhole(text, 0, CPU_SECONDS_MAX));

/** A day. Longer work belongs in a workflow. */
const TURN_SECONDS_MAX = 86_400;

export const turnSeconds = (): Option =>
  new Option(
    "--turn-seconds <seconds>",
    `seconds after which a turn is given up; 0: no limit; a class can set its own (default: ${TURN_SECONDS_DEFAULT})`,
  )
    .env("AGENTS_TURN_SECONDS")
    .argParser((text: string) => readWhole(text, 0, TURN_SECONDS_MAX));

/** A smaller limit would refuse the runtime's own data. */
const WRITE_BYTES_MIN = 1024;
/** A terabyte. */
const WRITE_BYTES_MAX = 2 ** 40;

/** Limits on what agents may write, whatever their classes allow, named as the class's. */
export const writeLimits = (): ReadonlyArray<Option> => [
  bytesOption(
    "--state-bytes-max <bytes>",
    "maximum size of an agent's state, as JSON",
    "STATE_BYTES_MAX",
  ),
  bytesOption(
    "--commit-bytes-max <bytes>",
    "maximum bytes of SQL changes in one commit of an agent",
    "COMMIT_BYTES_MAX",
  ),
  bytesOption(
    "--journal-bytes-per-minute <bytes>",
    "maximum growth of an agent's journal by calls and clients",
    "JOURNAL_BYTES_PER_MINUTE",
  ),
];

const bytesOption = (flags: string, about: string, name: keyof typeof WRITE_LIMIT_NAMES): Option =>
  new Option(
    flags,
    `${about}; a class can set a lower limit (default: ${WRITE_LIMITS_DEFAULT[WRITE_LIMIT_NAMES[name]]})`,
  )
    .env(`AGENTS_${name}`)
    .argParser((text: string) => readWhole(text, WRITE_BYTES_MIN, WRITE_BYTES_MAX));

const WRITE_LIMIT_NAMES = {
  STATE_BYTES_MAX: "stateBytesMax",
  COMMIT_BYTES_MAX: "commitBytesMax",
  JOURNAL_BYTES_PER_MINUTE: "journalBytesPerMinute",
} as const;

/** More than the cores of any known machine. It guards against a digit too many. */
const WORKERS_MAX = 256;

export const workers = (): Option =>
  new Option("--workers <count>", "number of worker processes; auto: one per core")
    .env("AGENTS_WORKERS")
    .default(1)
    .argParser((text: string) =>
      text === "auto" ? availableParallelism() : readWhole(text, 1, WORKERS_MAX, "auto, or "),
    );

/** The parent passes it to each worker; it is not for users. */
export const worker = (): Option =>
  new Option("--worker <number>", "number of this worker")
    .hideHelp()
    .argParser((text: string) => readWhole(text, 0, WORKERS_MAX - 1));

/** The control process passes it to the process of an isolated agent. It is not for users. */
export const isolated = (): Option =>
  new Option("--isolated", "this process runs a single agent").hideHelp();

/** The control process passes it after an end without a reason. It is not for users. */
export const reportTurns = (): Option =>
  new Option("--report-turns", "report which turns run").hideHelp();

/** For commands where users could expect the option: refuses it with the reason. */
export const noWorkers = (because: string): Option =>
  new Option("--workers <count>").hideHelp().argParser(() => {
    throw new InvalidArgumentError(`Only gateway and host have workers; ${because}.`);
  });

export const leaseTtl = (): Option =>
  new Option(
    "--lease-ttl <ms>",
    "milliseconds after which a lost host's agents move to other hosts (default of a new installation: 5000)",
  )
    .env("AGENTS_LEASE_TTL")
    .argParser((text: string) => readWhole(text, 500, 600_000));

export const shards = (): Option =>
  new Option(
    "--shards <count>",
    "number of units of ownership; the first run fixes it for good (default: 64)",
  )
    .env("AGENTS_SHARDS")
    .argParser((text: string) => readWhole(text, 1, 4096));

/**
 * Each group is four more streams, whose replicas elect leaders, send heartbeats and compact
 * independently.
 */
const STREAM_GROUPS_MAX = 64;

export const streamGroups = (): Option =>
  new Option(
    "--stream-groups <count>",
    "number of streams each for inbox, timers, journal and snapshots, to exceed the throughput of a single stream leader; divides the shards; each needs its own rights (permissions.conf); the first run fixes it for good (default: 1)",
  )
    .env("AGENTS_STREAM_GROUPS")
    .argParser((text: string) => readWhole(text, 1, STREAM_GROUPS_MAX));

export const replicas = (): Option =>
  new Option("--replicas <count>", "replicas of each stream: 3 on a cluster").argParser(
    (text: string) => readWhole(text, 1, 5),
  );

export const placementCluster = (): Option =>
  new Option("--placement-cluster <name>", "cluster to place the streams on");

export const placementTag = (): Option =>
  new Option(
    "--placement-tag <tag>",
    "tag that every server with a replica must have; may be repeated",
  ).argParser((text: string, before: ReadonlyArray<string> = []) => [...before, text]);

export const mcpAllowLoopback = (): Option =>
  new Option(
    "--mcp-allow-loopback",
    "let agents use MCP servers on this machine: anyone who can choose a server's URL then reaches this machine's ports",
  ).env("AGENTS_MCP_ALLOW_LOOPBACK");

export const logLevel = (): Option =>
  new Option("--log-level <level>", "lowest level to log")
    .env("AGENTS_LOG_LEVEL")
    .choices(LOG_LEVELS)
    .default("info");

export const fetchClasses = (): Option =>
  new Option(
    "--fetch-classes <which>",
    "classes of Request and Response for the module's code: lazy, or the platform's own (slower; docs/guides/agents.md)",
  )
    .env("AGENTS_FETCH_CLASSES")
    .choices(["lazy", "platform"])
    .default("lazy");

export const requestLog = (usual: RequestLines): Option =>
  new Option("--request-log <which>", "requests, sockets and jobs to log")
    .env("AGENTS_REQUEST_LOG")
    .choices(REQUEST_LINES)
    .default(usual);

export const logFormat = (): Option =>
  new Option("--log-format <format>", "json, or readable text (default: text on a terminal)")
    .env("AGENTS_LOG_FORMAT")
    .choices(["text", "json"]);

/** An option that takes a whole number, `min` at least. */
export const count = (flags: string, about: string, min = 1): Option =>
  new Option(flags, about).argParser((text: string) =>
    readWhole(text, min, Number.MAX_SAFE_INTEGER),
  );

export const readWhole = (text: string, min: number, max: number, or = ""): number => {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new InvalidArgumentError(`Use ${or}a whole number from ${min} to ${max}.`);
};

/** Parses every part of a comma-separated list. Spaces around a part are ignored. */
function readList(
  text: string,
  read: (part: string) => string | undefined,
  what: string,
): ReadonlyArray<string> {
  return text.split(",").map((part) => {
    const value = read(part.trim());
    if (value !== undefined) return value;
    throw new InvalidArgumentError(`Give ${what}.`);
  });
}

function readPort(text: string): number {
  return readWhole(text, 0, PORT_MAX);
}
