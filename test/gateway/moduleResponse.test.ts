/** The body that a module's `fetch` returns, as the gateway hands it to the server. */
import { expect, test } from "vitest";
import { toHttpResponse } from "../../services/gateway/requests.ts";

const MIB = 1024 * 1024;

test("a stream that always has more at once is sent as it is read, with all of its bytes", async () => {
  let made = 0;
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => {
      if (made === 3) controller.close();
      else controller.enqueue(new Uint8Array(48 * MIB).fill(++made));
    },
  });
  const { body: beginning, rest } = await toHttpResponse(new Response(body));
  const parts = [beginning as Uint8Array];
  for (let next = await rest!.read(); !next.done; next = await rest!.read()) parts.push(next.value);
  expect(made).toBe(3);
  expect(parts.map(({ length }) => length / MIB)).toEqual([64, 32, 48]);
  expect(parts.map((part) => [part[0], part.at(-1)])).toEqual([[1, 2], [2, 2], [3, 3]]); // prettier-ignore
});

test("a body at hand is sent whole", async () => {
  const { body, rest } = await toHttpResponse(new Response(new Uint8Array(50 * MIB)));
  expect([body.length, rest]).toEqual([50 * MIB, undefined]);
});
