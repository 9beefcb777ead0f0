/** Sends raw bytes as one request over a new socket: requests that no HTTP client would send. */
import { connect } from "node:net";

export interface Answer {
  readonly status: number;
  /** Head and body. */
  readonly text: string;
}

/**
 * Ends with the answer's body, or with the connection. `framed` is a body that frames itself. The
 * caller's side stays open: a half-closed one is a caller that has gone.
 */
export function ask(
  url: string,
  headers: Readonly<Record<string, string>>,
  { method = "GET", path = "/", body = "", framed = "" } = {},
): Promise<Answer> {
  const length = body === "" ? {} : { "content-length": String(Buffer.byteLength(body)) };
  const lines = Object.entries({ connection: "close", ...headers, ...length }).map(
    ([name, value]) => `${name}: ${value}`,
  );
  return new Promise((resolve, reject) => {
    const { port, hostname } = new URL(url);
    const socket = connect(Number(port), hostname);
    let text = "";
    const finish = (): void => {
      socket.destroy();
      resolve({ status: Number(text.split(" ")[1]), text });
    };
    socket.on("data", (data) => {
      text += data.toString("latin1");
      const head = text.indexOf("\r\n\r\n");
      const sent = /^content-length: (\d+)/im.exec(text)?.[1];
      if (head !== -1 && sent !== undefined && text.length >= head + 4 + Number(sent)) finish();
    });
    socket.on("error", reject);
    socket.on("close", finish);
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${body}${framed}`);
  });
}
