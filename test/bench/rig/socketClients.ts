/**
 * Thousands of WebSocket clients in a separate process (`SocketLoad` starts it), as cheap as Node
 * allows: one read buffer for all, and frames are counted but not decoded. One frame's content is
 * read in each run, so that the bench can check it.
 *
 * Sockets come in groups. A group's first socket sends the message of the run; when each socket of
 * the group has the frame that follows, the message is answered, and the next is sent.
 */
import { connect, type Socket } from "node:net";
import { randomBytes } from "node:crypto";
import type { LoadCommand, LoadReply, LoadRun } from "./SocketLoad.ts";

/** One read: more than the kernel hands over at once on loopback. */
const READ_BYTES = 256 * 1024;
/** Handshakes under way; a listener's backlog takes them. */
const OPENING_AT_ONCE = 64;

interface Group {
  readonly sockets: Client[];
  /** Send times of the messages that are not answered yet, oldest first. */
  readonly sentMs: number[];
  frames: number;
}

interface Client {
  readonly socket: Socket;
  readonly group: Group;
  /** The response head until it is whole; then undefined. */
  head: string | undefined;
  /** Bytes of a frame header that was cut, else undefined. */
  cut: Buffer | undefined;
  /** Payload bytes of the frame under way. */
  left: number;
  frames: number;
}

const shared = Buffer.allocUnsafe(READ_BYTES);
const groups: Group[] = [];
let onFrame: (client: Client, bytes: number, at: number) => void = () => undefined;

function open(port: number, path: string, group: Group, readyFrames: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const received = (bytes: number): boolean => {
      read(client, shared.subarray(0, bytes));
      if (client.frames >= readyFrames) resolve();
      return true;
    };
    const onread = { buffer: shared, callback: received };
    const socket = connect({ host: "127.0.0.1", port, noDelay: true, onread });
    const client: Client = { socket, group, head: "", cut: undefined, left: 0, frames: 0 };
    group.sockets.push(client);
    socket.on("error", reject);
    socket.on("close", () => reject(new Error(`a socket was closed: ${client.head ?? ""}`)));
    socket.on("connect", () => {
      const key = randomBytes(16).toString("base64");
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          `Sec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
      );
    });
  });
}

function read(client: Client, chunk: Buffer): void {
  let bytes = chunk;
  if (client.head !== undefined) {
    client.head += bytes.toString("latin1");
    const end = client.head.indexOf("\r\n\r\n");
    if (end < 0) return;
    if (!client.head.startsWith("HTTP/1.1 101")) return void client.socket.destroy();
    bytes = Buffer.from(client.head.slice(end + 4), "latin1");
    client.head = undefined;
  }
  if (client.cut !== undefined) {
    bytes = Buffer.concat([client.cut, bytes]);
    client.cut = undefined;
  }
  for (let at = 0; at < bytes.length;) {
    if (client.left > 0) {
      const taken = Math.min(client.left, bytes.length - at);
      client.left -= taken;
      at += taken;
      continue;
    }
    // Frames of servers are not masked: 2 bytes, or 4 or 10 with a longer length.
    const short = bytes[at + 1]! & 0x7f;
    const header = short === 126 ? 4 : short === 127 ? 10 : 2;
    if (bytes.length - at < header) {
      client.cut = Buffer.from(bytes.subarray(at));
      return;
    }
    const length =
      header === 2
        ? short
        : header === 4
          ? bytes.readUInt16BE(at + 2)
          : Number(bytes.readBigUInt64BE(at + 2));
    const opcode = bytes[at]! & 0x0f;
    at += header;
    client.left = length;
    if (opcode === PING) client.socket.write(PONG);
    else {
      client.frames += 1;
      if (sample === "" && at + length <= bytes.length)
        sample = bytes.toString("utf8", at, at + Math.min(length, SAMPLE_BYTES));
      onFrame(client, length, at);
    }
  }
}

/** RFC 6455 §5.5. */
const PING = 0x9;
/** Masked with zeros, as a client's frames must be. */
const PONG = Buffer.from([0x8a, 0x80, 0, 0, 0, 0]);

/** Enough to tell a frame from another. */
const SAMPLE_BYTES = 120;
/** The first frame of a run. */
let sample = "";

function maskedText(text: string): Buffer {
  const body = Buffer.from(text);
  const long = body.length > 125;
  const head = long
    ? [0x81, 0xfe, body.length >> 8, body.length & 0xff, 0, 0, 0, 0]
    : [0x81, 0x80 | body.length, 0, 0, 0, 0];
  return Buffer.concat([Buffer.from(head), body]);
}

async function openAll(command: LoadCommand & { readonly op: "open" }): Promise<void> {
  const todo = command.paths.flatMap((path) => {
    const group: Group = { sockets: [], sentMs: [], frames: 0 };
    groups.push(group);
    return Array.from({ length: command.socketsEach }, () => ({ path, group }));
  });
  await Promise.all(
    Array.from({ length: OPENING_AT_ONCE }, async () => {
      for (let next = todo.pop(); next !== undefined; next = todo.pop())
        await open(command.port, next.path, next.group, command.readyFrames);
    }),
  );
}

function run(command: LoadCommand & { readonly op: "run" }): Promise<LoadRun> {
  const { seconds, depth, groupsAtOnce, bytesMin } = command;
  const message = maskedText(command.message);
  const tookMs: number[] = [];
  const startMs = performance.now();
  const untilMs = startMs + seconds * 1000;
  let [next, underWay, endMs] = [0, 0, startMs];
  sample = "";
  return new Promise((resolve, reject) => {
    const send = (group: Group): void => {
      underWay += 1;
      group.sentMs.push(performance.now());
      group.sockets[0]!.socket.write(message);
    };
    onFrame = ({ group }, bytes) => {
      if (bytes < bytesMin) reject(new Error(`a frame of ${bytes} bytes: ${sample}`));
      group.frames += 1;
      if (group.frames % group.sockets.length !== 0) return;
      endMs = performance.now();
      tookMs.push(endMs - group.sentMs.shift()!);
      underWay -= 1;
      if (endMs < untilMs) return send(groups.length > groupsAtOnce ? nextGroup() : group);
      if (underWay > 0) return;
      onFrame = () => undefined;
      const answered = tookMs.length;
      const size = group.sockets.length;
      const perSecond = (answered * 1000) / (endMs - startMs);
      tookMs.sort((a, b) => a - b);
      const at = (share: number): number => tookMs[Math.floor((answered - 1) * share)]!;
      const [p50Ms, p99Ms, mostMs] = [at(0.5), at(0.99), at(1)];
      resolve({ answered, frames: answered * size, perSecond, p50Ms, p99Ms, mostMs, sample });
    };
    // One after the other: with fewer at once than there are, the next one is at rest.
    const nextGroup = (): Group => groups[next++ % groups.length]!;
    for (let n = 0; n < Math.min(groupsAtOnce, groups.length); n += 1) {
      const group = nextGroup();
      for (let ahead = 0; ahead < depth; ahead += 1) send(group);
    }
  });
}

const reply = (message: LoadReply): void => void process.send!(message);
process.on("disconnect", () => process.exit());
process.on("message", (command: LoadCommand) => {
  const done = command.op === "open" ? openAll(command) : run(command);
  done.then(
    (result) => reply({ result: result ?? undefined }),
    (error: unknown) => reply({ failure: String(error) }),
  );
});
