import { expect, test } from "vitest";
import { memoryInUse } from "../../services/node/memoryInUse.ts";

const MB = 1024 * 1024;
/** So large that V8's limit is the smaller part. */
const bytesMax = 1_000_000 * MB;
const buffers: Buffer[] = [];

test("buffers that code keeps are in use, and what databases have reserved for later is not", () => {
  let unused = 0;
  const databases = { memoryBytes: () => 0, unusedBytes: () => unused };
  const inUse = memoryInUse({ bytesMax: 100 * MB, databases });
  const before = inUse();
  for (let n = 0; n < 10; n++) buffers.push(Buffer.alloc(100 * MB));
  // What was garbage before is no longer in use.
  expect(inUse() - before).toBeGreaterThan(9);
  unused = 1_000 * MB;
  expect(inUse() - before).toBeLessThan(0.5);
  expect(memoryInUse({ bytesMax, databases })()).toBeLessThan(1);
});
