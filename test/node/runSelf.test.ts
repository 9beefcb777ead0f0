/** This program in a process of its own: what is collected of it, and one that never ends. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runSelf } from "../../services/node/runSelf.ts";
import { tempFolder } from "../kit/tempFolder.ts";

test("a command past its time limit is ended, and its output so far is returned", async () => {
  const folder = tempFolder("run-self");
  const own = process.argv[1]!;
  try {
    process.argv[1] = join(folder.path, "program.mjs");
    writeFileSync(process.argv[1], "console.log(process.argv[2]); if (process.argv[2] === 'loop') for (;;);"); // prettier-ignore
    expect(await runSelf(["ends"], {}, 60_000)).toMatchObject({ code: 0, out: "ends\n", late: false }); // prettier-ignore
    expect(await runSelf(["loop"], {}, 500)).toMatchObject({ signal: "SIGKILL", late: true });
  } finally {
    process.argv[1] = own;
    folder.remove();
  }
});
