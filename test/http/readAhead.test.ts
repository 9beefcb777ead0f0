/** What a user's stream of a body may return: bytes, and nothing else; and how they are cut. */
import { expect, test } from "vitest";
import { readAhead, type Ahead, type PendingBody } from "../../core/http/readAhead.ts";

/** A body of these pieces. */
function pending(...pieces: ReadonlyArray<unknown>): PendingBody {
  const stream = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  return { reader: stream.getReader(), next: undefined };
}

const ahead = (piece: unknown): Promise<Ahead> => readAhead(pending(piece), 1_000);

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

test("a piece that is too long is cut, and nothing of it is lost or doubled", async () => {
  const bytes = Uint8Array.from({ length: 2_500 }, (_, i) => i % 251);
  const read: number[] = [];
  const lengths: number[] = [];
  let body: PendingBody | undefined = pending(bytes.slice(0, 2_100), bytes.slice(2_100));
  while (body !== undefined) {
    const { bytes: some, rest }: Ahead = await readAhead(body, 1_000);
    lengths.push(some.length);
    read.push(...some);
    body = rest;
  }
  expect(lengths).toEqual([1_000, 1_000, 500]);
  expect(Uint8Array.from(read)).toEqual(bytes);
});
