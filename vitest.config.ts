import { defineConfig } from "vitest/config";

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
    // On two cores: much of the suite waits, for leases, deadlines and servers that start.
    maxWorkers: 3,
  },
});
