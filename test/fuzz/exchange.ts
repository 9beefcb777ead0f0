/** One connection's worth of bytes: sends them, says that there are no more, and waits for the peer's end. */
import type { Socket } from "node:net";

/** Less than an input may take: a peer that neither answers nor closes is named as such. */
const CLOSE_MS = 8_000;

/** What the peer sent, one character a byte. `greeted`: the peer speaks first. */
export function exchange(socket: Socket, bytes: Uint8Array, greeted = false): Promise<string> {
  return new Promise((resolve, reject) => {
    const got: Buffer[] = [];
    const text = () => Buffer.concat(got).toString("latin1");
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`neither an answer nor a close: ${text().slice(0, 300)}`));
    }, CLOSE_MS);
    socket.on("data", (piece: Buffer) => {
      if (greeted && got.length === 0) socket.end(bytes);
      got.push(piece);
    });
    socket.on("error", () => undefined); // a peer that has closed already
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(text());
    });
    if (!greeted) socket.end(bytes);
  });
}
