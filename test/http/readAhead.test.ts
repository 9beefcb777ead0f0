/** What a user's stream of a body may return: bytes, and nothing else. */
import { expect, test } from "vitest";
import { readAhead } from "../../core/http/readAhead.ts";

const ahead = (piece: unknown) => {
  const stream = new ReadableStream({
    start(controller) {
      controller.enqueue(piece);
      controller.close();
    },
  });
  return readAhead({ reader: stream.getReader(), next: undefined }, 1_000);
};

test("a body that is already received is read whole", async () => {
  expect(await ahead(new Uint8Array([1, 2]))).toEqual({
    bytes: new Uint8Array([1, 2]),
    rest: undefined,
  });
});

test("a body stream of text is refused, with the way to encode it", async () => {
  await expect(ahead("text")).rejects.toThrow(
    "returned a string; enqueue Uint8Array (new TextEncoder().encode(text))",
  );
});
