/** One connection's worth of bytes: sends them, ends its side, and waits for the end. */
import type { Socket } from "node:net";

/** Less than an input may take: a peer that neither answers nor closes is named as such. */
const CLOSE_MS = 8_000;

export interface ExchangeOptions {
  /** The peer speaks first. */
  readonly greeted?: boolean;
  /** The peer is to end it: uWebSockets.js gives up a request whose caller has ended its side. */
  readonly open?: boolean;
}

/** What the peer sent, one character a byte. */
export function exchange(
  socket: Socket,
  bytes: Uint8Array,
  { greeted = false, open = false }: ExchangeOptions = {},
): Promise<string> {
  return new Promise((resolve, reject) => {
    const got: Buffer[] = [];
    const text = () => Buffer.concat(got).toString("latin1");
    const send = () => (open ? socket.write(bytes) : socket.end(bytes));
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`neither an answer nor a close: ${text().slice(0, 300)}`));
    }, CLOSE_MS);
    socket.on("data", (piece: Buffer) => {
      if (greeted && got.length === 0) send();
      got.push(piece);
    });
    socket.on("error", () => undefined); // a peer that has closed already
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(text());
    });
    if (!greeted) send();
  });
}
