/** The lines of sockets that were refused: an error only where somebody waited for the socket. */
import { expect, test } from "vitest";
import { textResponse } from "../../core/http/responseHead.ts";
import { RequestLog } from "../../core/telemetry/RequestLog.ts";
import { RequestLines } from "../../services/gateway/RequestLines.ts";

const decision = { _tag: "Refuse", response: textResponse(503, "Service Unavailable") } as const;

test.each([
  ["an error", "waits", AbortSignal.any([]), ["error socket /agents/room/a"]],
  ["no error", "has left", AbortSignal.abort(), ["info socket /agents/room/a"]],
])("a refused upgrade is %s if its client %s", (_is, _client, caller, expected) => {
  const written: string[] = [];
  const at = (level: string) => (message: string) => void written.push(`${level} ${message}`);
  const log = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  const time = { monotonicMs: () => 0, after: () => () => undefined };
  const lines = new RequestLines(new RequestLog(log, time, "all"), time);
  const head = { method: "GET", target: "/agents/room/a?token=x" };
  expect(lines.onUpgrade(head, decision, caller)).toBe(decision);
  expect(written).toEqual(expected);
});
