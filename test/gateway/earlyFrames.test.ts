/** Frames that reach a gateway before the upgrade of their socket has finished. */
import { expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { encodeMessage } from "../../schemas/bus/message.ts";
import { SocketTable, type SocketServices } from "../../services/gateway/SocketTable.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const LIMIT = 10_000;
const SMALL = 100;
const ATTACHMENT = { tags: [], state: null, readonly: false, protocol: true };

/** A socket that is not open yet. `open` returns the sizes of what it then gets, or its close. */
function make() {
  const config = { gatewayId: "g", shards: 1, socketRates: {}, socketBufferBytesMax: LIMIT };
  const parts = { config, bus: { payloadBytesMax: 2 ** 20 }, log: {}, time: new VirtualTime() };
  const table = new SocketTable(parts as unknown as SocketServices);
  const socket = { gateway: "g", sid: "s", id: "s", url: "http://x/", headers: [] };
  const entry = table.add(agentId("Board", "b"), socket);
  const tell = (head: object, bytes = 0): void =>
    table.onHostMessage(encodeMessage(head, new Uint8Array(bytes)));
  return {
    begin: () => tell({ op: "attach", sid: "s", attachment: ATTACHMENT, begin: true }),
    send: (...sizes: number[]) => {
      for (const bytes of sizes) tell({ op: "send", sid: "s", text: false }, bytes);
    },
    open: (): unknown[] => {
      const got: unknown[] = [];
      const send = ({ length }: Uint8Array): void => void got.push(length);
      const close = (code: number): void => void got.push(`closed ${code}`);
      table.open(entry, { send, sendText: send, close }, "127.0.0.1");
      return got;
    },
  };
}

test("one frame above the limit arrives, with smaller ones before and after it", () => {
  const { begin, send, open } = make();
  const sizes = [SMALL, 3 * LIMIT, SMALL];
  begin();
  send(...sizes);
  expect(open()).toEqual(sizes);
});

test("a large frame of an agent that began again is the first one anew", () => {
  const { begin, send, open } = make();
  begin();
  send(3 * LIMIT);
  begin();
  send(3 * LIMIT);
  expect(open()).toEqual([3 * LIMIT]);
});

test.each([
  ["two frames above the limit", [3 * LIMIT, 3 * LIMIT]],
  ["many small ones", Array.from({ length: 200 }, () => SMALL)],
])("%s close the socket as it opens", (_what, sizes) => {
  const { begin, send, open } = make();
  begin();
  send(...sizes);
  expect(open()).toEqual(["closed 1013"]);
});
