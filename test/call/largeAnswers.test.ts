import { expect, test } from "vitest";
import { LargeAnswers } from "../../core/call/LargeAnswers.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

const PAYLOAD_BYTES_MAX = 1_000;

function encode(headerBytes: number, bodyBytes: number) {
  const blobs: string[] = [];
  const answers = new LargeAnswers({
    bus: { payloadBytesMax: PAYLOAD_BYTES_MAX },
    blobs: { put: async (name) => void blobs.push(name), remove: async () => undefined },
    time: new VirtualTime(),
  });
  const headers = [["x-large", "a".repeat(headerBytes)]] as const;
  const reply = { kind: "response", status: 200, headers } as const;
  const encoded = answers.encode({ reply, body: new Uint8Array(bodyBytes) });
  return { encoded, blobs };
}

test("a large body goes to the blob store, and its message is within the limit", async () => {
  const { encoded, blobs } = encode(100, PAYLOAD_BYTES_MAX);
  expect((await encoded).length).toBeLessThan(PAYLOAD_BYTES_MAX);
  expect(blobs).toHaveLength(1);
});

test.each([0, 1, PAYLOAD_BYTES_MAX])(
  "a response whose headers are too large is an error within the limit (a body of %i bytes)",
  async (bodyBytes) => {
    const { encoded, blobs } = encode(PAYLOAD_BYTES_MAX, bodyBytes);
    const bytes = await encoded;
    expect(bytes.length).toBeLessThan(PAYLOAD_BYTES_MAX);
    expect(new TextDecoder().decode(bytes)).toContain("RangeError");
    expect(blobs).toHaveLength(0);
  },
);
