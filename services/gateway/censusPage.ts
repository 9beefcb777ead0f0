/**
 * The pages of a census: a gateway's sockets of one shard, as the shard's new owner requests them.
 * `SocketTable` lists the sockets, in the order of `SocketsByShard`.
 *
 * 1. A page fits into one message of the broker. A page that did not would hide all of its sockets
 *    from the new owner, and clients and code choose how large a socket is: its URL may have 16
 *    KiB, and the state of its connection is larger still.
 * 2. A page that is not the last one lists a socket, and its cursor is the place of the last one
 *    that it lists. So a census ends.
 */
import type { CensusReply } from "../../schemas/bus/SocketLists.ts";
import { encodeFrameJson } from "../../schemas/Frame.ts";

/** Usual sockets have less than 1 KB each, so that such a page is encoded within a millisecond. */
const PAGE_SOCKETS_MAX = 200;
/** For what a page has beside its sockets: the frame's start, the gateway's id and the cursor. */
const PAGE_HEAD_BYTES = 1024;

type Listed = CensusReply["sockets"][number];

interface Census<Socket> {
  readonly gateway: string;
  /** The broker's limit of one message. */
  readonly messageBytesMax: number;
  /** Undefined: it is not listed. */
  readonly describe: (socket: Socket) => Listed | undefined;
  /** No message can describe this socket. Called after `sockets` was read. */
  readonly onTooLarge: (socket: Socket) => void;
}

/** Returns the encoded `CensusReply` that lists the first of these sockets. */
export function censusPage<Socket extends { readonly place: number }>(
  sockets: Iterable<Socket>,
  { gateway, messageBytesMax, describe, onTooLarge }: Census<Socket>,
): Uint8Array {
  const bytesMax = messageBytesMax - PAGE_HEAD_BYTES;
  const page: string[] = [];
  const tooLarge: Socket[] = [];
  let bytes = 0;
  let lastPlace = 0;
  let next = "";
  for (const socket of sockets) {
    const listed = describe(socket);
    if (listed === undefined) continue;
    const text = JSON.stringify(listed);
    const size = Buffer.byteLength(text) + 1; // its comma
    if (size > bytesMax) {
      tooLarge.push(socket);
      continue;
    }
    bytes += size;
    if (bytes > bytesMax || page.length === PAGE_SOCKETS_MAX) {
      next = `,"next":"${lastPlace}"`;
      break;
    }
    page.push(text);
    lastPlace = socket.place;
  }
  for (const socket of tooLarge) onTooLarge(socket);
  const head = `{"gateway":${JSON.stringify(gateway)},"sockets":[`;
  return encodeFrameJson([head, page.join(","), "]", next, "}"].join(""));
}
