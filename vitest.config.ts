import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Runs at a low priority, on what the cores have left: begun last, all would wait for it. */
const FIRST = /test\/sim\/seeds\.test\.ts$/;

class SeedsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- not an array's
    const sorted = await super.sort(files);
    const isFirst = ({ moduleId }: TestSpecification): boolean => FIRST.test(moduleId);
    return [...sorted.filter(isFirst), ...sorted.filter((file) => !isFirst(file))];
  }
}

// Tests run on the sources: the package's own entries resolve to TypeScript by the
// "agents-source" condition. Processes that tests spawn run from dist/, which `pretest` builds.
export default defineConfig({
  resolve: { conditions: ["agents-source"] },
  ssr: { resolve: { conditions: ["agents-source"] } },
  test: {
    include: ["test/**/*.test.ts", "examples/**/*.test.ts"],
    globalSetup: ["test/kit/globalSetup.ts"],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    pool: "forks",
    sequence: { sequencer: SeedsFirst },
    // On two cores: much of the suite waits, for leases, deadlines and servers that start. A fourth makes hosts miss leases.
    maxWorkers: 3,
  },
});
