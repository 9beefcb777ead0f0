/**
 * Bounds what a session keeps of a stream that its client does not read. The SDK's transport, and
 * that of server-sent events, queue messages without a limit: a client that calls tools and reads
 * nothing would fill the host. Past the limit the stream is cut and what it kept is freed; a client
 * of streamable HTTP gets the rest with `Last-Event-ID`. The limit is of one stream, whose own
 * queue counts; `core/http/PeerBytes` shares a total.
 */

/** As long as an answer of a server may be (`services/mcp`): several ordinary results fit. */
const UNREAD_BYTES_MAX = 16 * 1024 * 1024;

/** The same stream. A single message may be larger than the limit. */
export function boundedBody(
  body: ReadableStream<Uint8Array>,
  bytesMax = UNREAD_BYTES_MAX,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const pass = async (controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return controller.close();
      if ((controller.desiredSize ?? 0) > 0) controller.enqueue(value);
      else {
        controller.error(new Error(`The client has not read ${bytesMax} bytes of its stream`));
        return reader.cancel();
      }
    }
  };
  return new ReadableStream<Uint8Array>(
    {
      // Not awaited: the stream can be read from its first message on.
      start: (controller) =>
        void pass(controller).catch((error: unknown) => controller.error(error)),
      cancel: (reason) => reader.cancel(reason),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: bytesMax }),
  );
}
