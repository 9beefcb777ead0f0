/** The HttpServer port's rules, held by both adapters on real sockets. */
import { describe, expect, it } from "vitest";
import { adapters, nativeReason } from "./kit.ts";
import { answerRules } from "./answerRules.ts";
import { failureRules } from "./failureRules.ts";
import { lifecycleRules } from "./lifecycleRules.ts";
import { limitRules } from "./limitRules.ts";
import { requestRules } from "./requestRules.ts";
import { socketRules } from "./socketRules.ts";
import { streamRules } from "./streamRules.ts";

it("the default adapter loads wherever its native binary exists", () => {
  const supported = ["linux", "darwin", "win32"].includes(process.platform);
  // Its builds for Node 22 and up want a newer C library than some systems have.
  const newer = Number(process.versions.node.split(".")[0]) >= 22;
  const without = nativeReason !== undefined && (!supported || newer);
  expect(nativeReason === undefined || without, nativeReason).toBe(true);
});

describe.each(adapters)("$name", (adapter) => {
  requestRules(adapter);
  answerRules(adapter);
  streamRules(adapter);
  limitRules(adapter);
  socketRules(adapter);
  failureRules(adapter);
  lifecycleRules(adapter);
});
