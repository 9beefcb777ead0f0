/**
 * `npm run chat-kills [-- --times <n>]`: chats of the reference's `@cloudflare/ai-chat`, run with
 * its own package, while the host that writes an answer is killed this many times (1) at each
 * point. It runs `dist/`: build first. The packages come from npm. Exits with 1 if a rule did not
 * hold.
 */
import { parseArgs } from "node:util";
import { ChatRig, POINTS } from "./ChatRig.ts";

const { values } = parseArgs({ options: { times: { type: "string", default: "1" } } });
const rig = await ChatRig.start();
const wrong: string[] = [];
try {
  for (let round = 1; round <= Number(values.times); round++)
    for (const [n, [point, words]] of Object.entries(POINTS).entries()) {
      const found = await rig
        .ask(`chat-${n}-${round}`, words)
        .catch((error: Error) => [error.message]);
      wrong.push(...found);
      console.log(
        `round ${round}, killed ${point}: ${found.length === 0 ? "held" : found.join("; ")}`,
      );
    }
} finally {
  await rig.stop();
}
console.log(`${rig.kills} kills, ${wrong.length} of what has to hold did not`);
process.exitCode = wrong.length === 0 ? 0 : 1;
