/** A WebSocket client that sends exactly the bytes it is given, for what no proper client sends. */
import { RawClient } from "../http/kit.ts";
import { pollUntil } from "../kit/poll.ts";

/** On a busy machine. */
const POLL_TIMEOUT_MS = 90_000;

const TEXT = 1;
const CLOSE = 8;

const handshake = (path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/** A final frame, masked with zeros. */
function frameOf(opcode: number, payload: string): Buffer {
  const data = Buffer.from(payload);
  const head = Buffer.alloc(10);
  head.writeUInt8(0x80 | opcode);
  head.writeUInt8(0x80 | 127, 1);
  head.writeBigUInt64BE(BigInt(data.length), 2);
  return Buffer.concat([head, Buffer.alloc(4), data]);
}

interface Frame {
  readonly opcode: number;
  readonly data: Buffer;
}

export class RawSocket implements Disposable {
  readonly client: RawClient;

  private constructor(client: RawClient) {
    this.client = client;
  }

  /** Resolves when the upgrade is answered. */
  static async open(port: number, path: string): Promise<RawSocket> {
    const client = await RawClient.connect(port);
    client.send(handshake(path));
    await pollUntil("the upgrade is answered", () => client.text.includes("\r\n\r\n"), {
      timeoutMs: POLL_TIMEOUT_MS,
    });
    return new RawSocket(client);
  }

  /** Sends one text frame for each text, in one write. */
  send(...texts: ReadonlyArray<string>): void {
    this.client.socket.write(Buffer.concat(texts.map((text) => frameOf(TEXT, text))));
  }

  /** The texts that it has received. */
  get texts(): ReadonlyArray<string> {
    return this.frames.filter(({ opcode }) => opcode === TEXT).map(({ data }) => data.toString());
  }

  /** Code and reason of the server's close frame. */
  get closed(): string | undefined {
    const data = this.frames.find(({ opcode }) => opcode === CLOSE)?.data;
    return data && `${data.readUInt16BE()} ${data.subarray(2).toString()}`;
  }

  /** Resolves to the first text for which `isIt` holds. */
  async until(what: string, isIt: (text: string) => boolean): Promise<string> {
    const found = await pollUntil(
      what,
      () => {
        const value = this.texts.find(isIt);
        return value === undefined
          ? { done: false as const, saw: [this.closed, this.texts.map((text) => text.slice(0, 80)).slice(-5)] }
          : { done: true as const, value };
      },
      { timeoutMs: POLL_TIMEOUT_MS },
    ); // prettier-ignore
    return found;
  }

  async untilClosed(): Promise<string> {
    return pollUntil(
      "the socket is closed",
      () => {
        const value = this.closed;
        return value === undefined
          ? { done: false as const, saw: this.texts.slice(-3) }
          : { done: true as const, value };
      },
      { timeoutMs: POLL_TIMEOUT_MS },
    );
  }

  private get frames(): ReadonlyArray<Frame> {
    const bytes = Buffer.from(this.client.text, "latin1");
    const frames: Frame[] = [];
    for (let at = bytes.indexOf("\r\n\r\n") + 4; at + 2 <= bytes.length;) {
      const short = bytes.readUInt8(at + 1);
      const head = short < 126 ? 2 : short === 126 ? 4 : 10;
      if (at + head > bytes.length) break;
      const length =
        short < 126
          ? short
          : short === 126
            ? bytes.readUInt16BE(at + 2)
            : Number(bytes.readBigUInt64BE(at + 2));
      const end = at + head + length;
      if (end > bytes.length) break;
      frames.push({ opcode: bytes.readUInt8(at) & 15, data: bytes.subarray(at + head, end) });
      at = end;
    }
    return frames;
  }

  [Symbol.dispose](): void {
    this.client.socket.destroy();
  }
}
