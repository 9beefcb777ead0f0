import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** These change what a process has once (globals, environment, a prototype), or measure it. */
const ALONE = [
  "test/sim/*.test.ts",
  "test/react/*.test.ts",
  "test/lazyFetch/lazyFetch.test.ts",
  "test/durableObject/*.test.ts",
  "test/cli/reading.test.ts",
  "test/node/memoryInUse.test.ts",
];
/** `npm run attack`: what an outsider tries, over real sockets and processes. */
const ATTACK = ["test/attack/**/*.test.ts"];
/**
 * `npm run test:processes`: real processes that start, serve, die and fill up. They would be half
 * of the suite's time, with 10 seconds or more each.
 */
const PROCESSES = [
  "test/cli/{commands/lostStreams,devFrom,erase,fork,init,rerun,serving,tunnel,workers}.test.ts",
  "test/deploy/{deniedHost,metrics,permissions}.test.ts",
  "test/email/killed.test.ts",
  "test/host/{burst,fullMemory,idleAgents,unreadLog}.test.ts",
  "test/http/slow.test.ts",
  "test/{mcp,mcpAgent}/hostDeath.test.ts",
  "test/nats/{natsFaults,whyUnreachable}.test.ts",
  "test/natsServer/{natsServerFinder,natsServerSupervisor}.test.ts",
  "test/otel/traces.test.ts",
  "test/page/*.test.ts",
  "test/query/{brokerReads,query,slow}.test.ts",
  "test/retention/archive.test.ts",
  "test/runtime/unhandledErrors.test.ts",
  "test/subAgent/processes.test.ts",
  "test/wiring/stoppedStart.test.ts",
];
/** `npm run test:long`: real processes, clusters, whole calendars; half a minute each or more. */
const LONG = [
  "test/cluster/*.test.ts",
  "test/faults/{rig,rigFound,socketOrder,lostCalls,nothingLost,leftBehind,topology,deadCallee,damage}.test.ts",
  "test/membership/{membership,gatewayEnds}.test.ts",
  "test/workflow/kill.test.ts",
  "test/durableObject/dialedHostDeath.test.ts",
  "test/step/kills.test.ts",
  "test/stream/assistantKills.test.ts",
  "test/schedule/{manySchedules,realServer,cron}.test.ts",
  "test/queue/crashes.test.ts",
  "test/deploy/{backup,logins,diskFull,streamGroups}.test.ts",
  "test/nats/{natsGroups,natsStreamGroups}.test.ts",
  "test/cli/{installation,backupRestore,backupChain,backupResume,exportImport,rerun/onFork}.test.ts",
  "test/replay/replayEquality.test.ts",
  "test/sqlite/replay.test.ts",
  "test/watchdog/{holds,ends}.test.ts",
  "test/retention/{realTrim,kills}.test.ts",
  "test/system/followChanges.test.ts",
  "test/console/{access,api,hostile,pages,path,quarantined,work}.test.ts",
  "test/query/killed.test.ts",
];
/** Of the long ones, those that are alone. */
const LONG_ALONE = ["test/sim/{bites,crashPoints}.test.ts"];

/**
 * The longest of each tier. Begun last, as short files are in a fresh clone, each would run for a
 * minute or more while the other workers have no more.
 */
const SLOWEST =
  /test\/(watchdog\/(holds|ends)|step\/kills|sim\/crashPoints|http\/conformance|conformance\/nats|page\/tabs|host\/fullMemory)\.test\.ts$/;

class AloneThenSlowestFirst extends BaseSequencer {
  /** A file that is alone would end the process that the others share, so those come after it. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const sorted = await super.sort(files);
    const rank = ({ project, moduleId }: TestSpecification): number =>
      (project.config.isolate ? 0 : 2) + (SLOWEST.test(moduleId) ? 0 : 1);
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}

const files = (include: string[], exclude: string[]) => ({
  include,
  exclude: [...configDefaults.exclude, ...exclude],
});
const alone = (name: string, include: string[], exclude: string[] = []) => ({
  extends: true as const,
  test: { name, ...files(include, exclude) },
});
/** Loading effect and the sources for each file anew would be a third of the suite's time. */
const together = (name: string, include: string[], exclude: string[] = []) => ({
  extends: true as const,
  test: { name, isolate: false, ...files(include, exclude) },
});

// Tests run on the sources: the package's own entries resolve to TypeScript by the
// "agents-source" condition. Processes that tests spawn run from dist/, which `pretest` builds.
export default defineConfig({
  resolve: {
    conditions: ["agents-source"],
    alias: {
      "cloudflare:workers": new URL("services/platform/index.ts", import.meta.url).pathname,
      "cloudflare:email": new URL("services/platform/email.ts", import.meta.url).pathname,
      "cloudflare:workflows": new URL("services/platform/workflows.ts", import.meta.url).pathname,
    },
  },
  ssr: { resolve: { conditions: ["agents-source"] } },
  test: {
    globalSetup: ["test/kit/globalSetup.ts"],
    // What imports the reference's platform is not left to Node.
    server: { deps: { inline: [/reference-agents/] } },
    // For a machine that is busy elsewhere: no test passes or fails by how fast it is.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // A report of a failure has its first line only: it says what was there.
    chaiConfig: { truncateThreshold: 2_000 },
    pool: "forks",
    // The tiers after the first one take the sources as that one left them.
    experimental: { fsModuleCache: true },
    sequence: { sequencer: AloneThenSlowestFirst },
    // On two cores: much of the suite waits, for leases, deadlines, servers that start.
    maxWorkers: 4,
    projects: [
      alone("alone", ALONE, [...LONG, ...LONG_ALONE]),
      together(
        "together",
        ["test/**/*.test.ts", "examples/**/*.test.ts"],
        [...ALONE, ...PROCESSES, ...LONG, ...LONG_ALONE, ...ATTACK],
      ),
      alone("long alone", LONG_ALONE),
      together("processes", PROCESSES),
      together("long", LONG),
      together("attack", ATTACK),
    ],
  },
});
