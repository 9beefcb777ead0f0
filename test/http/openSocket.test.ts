/** What stays in memory of the decision about an upgrade while its socket is open. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import type { UpgradeDecision } from "../../core/http/HttpServer.ts";
import { RequestLines } from "../../services/gateway/RequestLines.ts";
import { pollUntil } from "../kit/poll.ts";
import { adapters, startServer } from "./kit.ts";
import { client } from "./socketRules.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

const written: string[] = [];
const requests = {
  wants: () => true,
  write: (_: string, line: () => { readonly status?: unknown }) =>
    void written.push(String(line().status)),
};
const lines = new RequestLines(requests as never, { monotonicMs: () => 0 });

describe.each(adapters)("$name", (adapter) => {
  it("keeps no decision of an open socket, logged or not, and tells of its close", async () => {
    const kept: Array<WeakRef<UpgradeDecision>> = [];
    const closes: string[] = [];
    await using server = await startServer(adapter, {
      onUpgrade: async (request, aborted) => {
        const decision: UpgradeDecision = { _tag: "Accept", open: (socket) => ({
          onMessage: (data) => socket.send(data),
          onClose: (code) => void closes.push(`${code}`),
        }) }; // prettier-ignore
        kept.push(new WeakRef(decision));
        return lines.onUpgrade(request, decision, aborted);
      },
    });
    using one = await client(server.port);
    using two = await client(server.port);
    for (const { ws } of [one, two]) ws.send("hello");
    await pollUntil("both are answered", () => one.received.length + two.received.length === 2);
    await pollUntil("the decisions are collected", () => {
      collect();
      return kept.length === 2 && kept.every((decision) => decision.deref() === undefined);
    });
    for (const { ws } of [one, two]) ws.close(4001);
    await pollUntil("both are closed", () => closes.length === 2);
    expect(closes).toEqual(["4001", "4001"]);
    expect(written.splice(0)).toEqual(["opened", "opened", "closed 4001", "closed 4001"]);
  });
});
