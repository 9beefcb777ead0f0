import { expect, test } from "vitest";
import { wholeResponse } from "../../core/http/takeResponse.ts";

const taken = async (headers: HeadersInit): Promise<unknown> =>
  wholeResponse(new Response(null, { headers }), "onRequest");

test("a response with more than 2,000 headers is refused", async () => {
  const many = (count: number): [string, string][] =>
    Array.from({ length: count }, (_, at) => [`x-${at}`, "a"]);
  await expect(taken(many(2_000))).resolves.toMatchObject({ status: 200 });
  await expect(taken(many(2_001))).rejects.toThrow(
    "onRequest returned a Response that can't be sent: it has 2001 headers, more than 2000",
  );
});

test("a response with headers of more than 128 KiB is refused", async () => {
  const large = (length: number) => ({ "x-large": "a".repeat(length - "x-large".length) });
  await expect(taken(large(131_072))).resolves.toMatchObject({ status: 200 });
  await expect(taken(large(131_073))).rejects.toThrow(
    "its headers have 131073 characters, more than 131072",
  );
});
