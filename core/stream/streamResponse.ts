/**
 * A durable stream as server-sent events (WHATWG HTML, "Server-sent events"). Each chunk is one
 * event with its place as its id, so that an `EventSource` which reconnects sends it back as
 * `Last-Event-ID`. The body is pulled: a reader that does not read costs nothing but its place.
 *
 *     id: <place>            data: <chunk, JSON>
 *     event: restart                                the chunks before are of another stream
 *     event: end             data: <result, JSON>   with an id of its own
 *     event: failed          data: <message, JSON>  with an id of its own
 *
 * `response` of `DurableStream` calls it.
 */
import { cursorText, parseCursor, START, type Cursor } from "./Cursor.ts";
import type { StreamResponseOptions } from "./DurableStream.ts";
import type { Look } from "./Look.ts";
import type { Streams } from "./Streams.ts";

/**
 * Its writer may be a queue's next item, on a host that has just taken over, and so may that of the
 * next stream after a removal.
 */
const WAIT_MS_DEFAULT = 10_000;
/** A comment this often keeps proxies from closing a connection on which nothing else comes. */
const KEEP_ALIVE_MS = 15_000;

const encoder = new TextEncoder();

export async function streamResponse(
  streams: Streams,
  key: string,
  request: Pick<Request, "url" | "headers">,
  { headers = {}, waitMs = WAIT_MS_DEFAULT }: StreamResponseOptions,
): Promise<Response> {
  const from = placeOf(request);
  if (from === undefined) return new Response("Invalid Last-Event-ID", { status: 400 });
  if (!(await exists(streams, key, waitMs))) return new Response("No such stream", { status: 404 });
  const look = streams.look(key, from);
  // The end has its own number: a reader that has it has everything of this stream.
  if (
    look._tag === "Found" &&
    look.over !== undefined &&
    !look.restarted &&
    from.sequence > look.sequence
  )
    return new Response(null, { status: 204 });
  const all = new Headers(headers);
  all.set("content-type", "text/event-stream");
  all.set("cache-control", "no-store");
  return new Response(eventsOf(streams, key, from), { headers: all });
}

/** Undefined: it can't be read. */
function placeOf({ url, headers }: Pick<Request, "url" | "headers">): Cursor | undefined {
  const text = headers.get("last-event-id") ?? new URL(url).searchParams.get("since");
  return text === null || text === "" ? START : parseCursor(text);
}

async function exists(streams: Streams, key: string, waitMs: number): Promise<boolean> {
  const isThere = (): boolean => streams.look(key, START)._tag === "Found";
  if (isThere()) return true;
  if (waitMs > 0) await streams.changed(key, waitMs);
  return isThere();
}

function eventsOf(streams: Streams, key: string, from: Cursor): ReadableStream<Uint8Array> {
  let at = from;
  let gone = false;
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      for (;;) {
        const look = streams.look(key, at);
        if (look._tag === "Absent") {
          if (await exists(streams, key, WAIT_MS_DEFAULT)) continue;
          if (gone) return;
          controller.enqueue(encoder.encode(failed("The stream was removed")));
          return controller.close();
        }
        const text = textOf(look);
        at = { id: look.id, sequence: look.sequence };
        if (text !== "") controller.enqueue(encoder.encode(text));
        if (look.over !== undefined) return controller.close();
        if (text !== "") return;
        if (await streams.changed(key, KEEP_ALIVE_MS)) continue;
        if (!gone) controller.enqueue(encoder.encode(": keep-alive\n\n"));
        return;
      }
    },
    cancel() {
      gone = true;
    },
  });
}

function textOf({ id, restarted, chunks, sequence, over }: Look & { _tag: "Found" }): string {
  const first = sequence - chunks.length + 1;
  const events = chunks.map(
    (chunk, n) => `id: ${cursorText(id, first + n)}\ndata: ${JSON.stringify(chunk)}\n\n`,
  );
  if (restarted) events.unshift("event: restart\ndata: null\n\n");
  if (over !== undefined) {
    const place = `id: ${cursorText(id, sequence + 1)}\n`;
    events.push(
      over.status === "ended"
        ? `${place}event: end\ndata: ${over.result ?? "null"}\n\n`
        : place + failed(over.error ?? ""),
    );
  }
  return events.join("");
}

const failed = (message: string): string => `event: failed\ndata: ${JSON.stringify(message)}\n\n`;
