/** The HttpServer port's rules, held by both adapters on real sockets. */
import { describe, expect, it } from "vitest";
import { adapters, nativeReason } from "./kit.ts";
import { answerRules } from "./answerRules.ts";
import { lifecycleRules } from "./lifecycleRules.ts";
import { limitRules } from "./limitRules.ts";
import { requestRules } from "./requestRules.ts";
import { socketRules } from "./socketRules.ts";
import { streamRules } from "./streamRules.ts";

it("the default adapter loads wherever its native binary exists", () => {
  const supported = ["linux", "darwin", "win32"].includes(process.platform);
  const muslOrNewer = nativeReason !== undefined && !supported;
  expect(nativeReason === undefined || muslOrNewer, nativeReason).toBe(true);
});

describe.each(adapters)("$name", (adapter) => {
  requestRules(adapter);
  answerRules(adapter);
  streamRules(adapter);
  limitRules(adapter);
  socketRules(adapter);
  lifecycleRules(adapter);
});
