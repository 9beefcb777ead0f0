/** A stream whose client reads too little is cut, and its source is told. */
import { expect, test } from "vitest";
import { boundedBody } from "../../services/mcpAgent/boundedBody.ts";

const PIECE = new Uint8Array(1_000);

function source(pieces: number) {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      for (let n = 0; n < pieces; n += 1) controller.enqueue(PIECE);
    },
    cancel: () => void (cancelled = true),
  });
  return { body, isCancelled: () => cancelled };
}

test("a stream that nobody reads is cut past its limit, and cancelled at its source", async () => {
  const { body, isCancelled } = source(4);
  const reader = boundedBody(body, 3_000).getReader();
  await new Promise((resolve) => setImmediate(resolve));
  expect(isCancelled()).toBe(true);
  await expect(reader.read()).rejects.toThrow("The client has not read 3000 bytes of its stream");
});

test("the first message passes, however large", async () => {
  const reader = boundedBody(source(1).body, 1).getReader();
  expect((await reader.read()).value).toHaveLength(1_000);
});

test("a stream that ends is delivered whole", async () => {
  const text = "event: message\n".repeat(1_000);
  expect(await new Response(boundedBody(new Response(text).body!)).text()).toBe(text);
});
