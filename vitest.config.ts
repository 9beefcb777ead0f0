import { configDefaults, defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Runs at a low priority, on what the cores have left: begun last, all would wait for it. */
const FIRST = /test\/sim\/seeds\.test\.ts$/;

/** These change what a process has once: its priority, its globals, its environment, a prototype. */
const ALONE = [
  "test/sim/*.test.ts",
  "test/react/*.test.ts",
  "test/http/lazyFetchClasses.test.ts",
  "test/cli/reading.test.ts",
];

class SeedsFirst extends BaseSequencer {
  /** Then those that run alone: between two of the others one would end the process that these share. */
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const sorted = await super.sort(files);
    const rank = ({ moduleId, project }: TestSpecification): number =>
      FIRST.test(moduleId) ? 0 : project.config.isolate ? 1 : 2;
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}

// Tests run on the sources: the package's own entries resolve to TypeScript by the
// "agents-source" condition. Processes that tests spawn run from dist/, which `pretest` builds.
export default defineConfig({
  resolve: { conditions: ["agents-source"] },
  ssr: { resolve: { conditions: ["agents-source"] } },
  test: {
    globalSetup: ["test/kit/globalSetup.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    sequence: { sequencer: SeedsFirst },
    // On two cores: much of the suite waits, for leases, deadlines, servers that start, and one worker for the seeds.
    maxWorkers: 4,
    projects: [
      { extends: true, test: { name: "alone", include: ALONE } },
      {
        extends: true,
        test: {
          name: "together",
          // Loading effect and the sources for each file anew would be a third of the suite's time.
          isolate: false,
          include: ["test/**/*.test.ts", "examples/**/*.test.ts"],
          exclude: [...configDefaults.exclude, ...ALONE],
        },
      },
    ],
  },
});
