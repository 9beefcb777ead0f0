/** An agent with large answers. */
import { Agent } from "agents";

const PIECE = new Uint8Array(64 * 1024);
/** More than the buffers of a loopback connection hold. */
const PIECES = 512;

export class Large extends Agent {
  override onRequest(request: Request): Response {
    const { pathname, searchParams } = new URL(request.url);
    if (!pathname.endsWith("/stream")) return new Response("OK");
    const pieces = Number(searchParams.get("pieces") ?? PIECES);
    let sent = 0;
    return new Response(
      new ReadableStream({
        pull: (controller) => (++sent > pieces ? controller.close() : controller.enqueue(PIECE)),
      }),
    );
  }
}
