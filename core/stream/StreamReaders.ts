/**
 * The sockets that read durable streams of an agent in memory: sends each what follows its place,
 * as it is stored, until the stream is over.
 *
 * 1. Only stored chunks are sent, without waiting for the output gate.
 * 2. The client keeps its place, and sends it when it begins to read and when it comes back. Which
 *    streams a socket reads is kept with the socket, so that an agent that was just activated, or
 *    whose frames may be lost, asks for the place (`AgentSockets`).
 * 3. A socket reads `READS_MAX` streams at once. One that reads too slowly is closed by its
 *    gateway.
 * 4. What is stored already is sent a piece at a time, in slices (`readSlicesOf`): a frame of a few
 *    bytes can ask for a whole stream, again and again. A later request with the same id replaces
 *    the earlier one.
 *
 * Part of `Keeping`; asked by `socketCalls` and `handleRpc`.
 */
import { Connection } from "../connection/Connection.ts";
import { rpcFrame, streamFrame, type StreamFrame } from "../connection/protocol.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import { readSlicesOf } from "../time/TimeSlices.ts";
import { cursorText, parseCursor, START, type Cursor } from "./Cursor.ts";
import type { Look } from "./Look.ts";
import type { Streams } from "./Streams.ts";

/** Rule 3. A page shows a few answers. */
const READS_MAX = 16;
/**
 * How long to wait for a stream that does not exist yet, or was removed: the writer of the next one
 * may be the queue's next item, and wait for a model.
 */
const ABSENT_MS_MAX = 10_000;
/** Characters of a client's name for a read. Names are kept with the socket; keys have as many. */
const NAME_LENGTH_MAX = 256;

/** A reader of a stream. */
interface StreamRead {
  readonly connection: Connection;
  /** The client's name for it, or the id of the call that it answers. */
  readonly id: string;
  readonly key: string;
  /** The client's place; absent: from the start. */
  readonly since?: string | undefined;
  /** Whether it answers a call: each chunk is a frame, as for a streaming method. Default false. */
  readonly asCall?: boolean;
}

interface Reader extends StreamRead {
  at: Cursor;
  /** Its next piece waits for a slice (rule 4). */
  waits: boolean;
  stopped: boolean;
  /** Ends the wait for a stream; undefined while there is one. */
  found: (() => void) | undefined;
  stop: () => void;
}

export interface ReadersAgent extends Pick<AgentTurns, "time" | "discarded"> {
  readonly sockets: {
    /** Does not wait for the output gate. */
    sendStored(connection: Connection, frame: string): void;
    attach(connection: Connection): void;
  };
}

export class StreamReaders {
  private readonly readers = new Map<Connection, Map<string, Reader>>();

  constructor(
    private readonly agent: ReadersAgent,
    private readonly streams: Streams,
  ) {}

  /** Begins to read, or continues from the client's place. */
  add(read: StreamRead): void {
    const { connection, id, key, since = "" } = read;
    if (id.length > NAME_LENGTH_MAX || key.length > NAME_LENGTH_MAX)
      return this.refuse(read, `The id and the key of a read have at most ${NAME_LENGTH_MAX} characters`); // prettier-ignore
    const at = since === "" ? START : parseCursor(since);
    if (at === undefined) return this.refuse(read, `Invalid place in the stream: ${since}`);
    const own = this.readers.get(connection) ?? new Map<string, Reader>();
    if (!own.has(id) && own.size >= READS_MAX)
      return this.refuse(read, `A socket reads at most ${READS_MAX} streams at once`);
    own.get(id)?.stop();
    this.readers.set(connection, own);
    const reader: Reader = {
      ...read,
      at,
      waits: false,
      stopped: false,
      found: undefined,
      stop: () => undefined,
    };
    own.set(id, reader);
    const unwatch = this.streams.watch(key, () => {
      if (!reader.waits) this.pump(reader);
    });
    reader.stop = () => {
      reader.stopped = true;
      unwatch();
      reader.found?.();
      own.delete(id);
    };
    const { reads } = Connection.internals(connection);
    if (reads.get(id) !== key) {
      reads.set(id, key);
      this.agent.sockets.attach(connection);
    }
    this.pumpInSlice(reader);
  }

  /** The client has stopped reading. Returns false if it did not read under this id. */
  cancel(connection: Connection, id: string): boolean {
    const reader = this.readers.get(connection)?.get(id);
    if (reader === undefined) return false;
    this.over(reader);
    return true;
  }

  /** The socket has closed. */
  drop(connection: Connection): void {
    for (const reader of this.readers.get(connection)?.values() ?? []) reader.stop();
    this.readers.delete(connection);
  }

  /** Rule 4. */
  private pumpInSlice(reader: Reader): void {
    reader.waits = true;
    readSlicesOf(this.agent.time).run(() => {
      reader.waits = false;
      if (!reader.stopped) this.pump(reader);
    });
  }

  private pump(reader: Reader): void {
    const { connection, key } = reader;
    if (this.agent.discarded || connection.readyState !== Connection.OPEN)
      return this.drop(connection);
    const look = this.streams.look(key, reader.at);
    if (look._tag === "Absent") {
      reader.found ??= this.agent.time.after(ABSENT_MS_MAX, () => this.giveUp(reader));
      return;
    }
    reader.found?.();
    reader.found = undefined;
    reader.at = { id: look.id, sequence: look.sequence };
    this.send(reader, look);
    if (look.over !== undefined) this.over(reader);
    else if (!look.caughtUp) this.pumpInSlice(reader);
  }

  private send(reader: Reader, look: Look & { _tag: "Found" }): void {
    if (reader.asCall === true) return this.answer(reader, look);
    const { id: stream, restarted, chunks, sequence, over } = look;
    if (chunks.length === 0 && !restarted && over === undefined) return;
    this.frame(reader, {
      seq: cursorText(stream, sequence),
      chunks,
      ...(restarted ? { restart: true } : {}),
      ...(over === undefined
        ? {}
        : over.status === "ended"
          ? { done: true, ...(over.result === null ? {} : { result: JSON.parse(over.result) }) }
          : { error: over.error ?? "" }),
    });
  }

  /** The frame of a streaming method, with the place. */
  private answer({ connection, id, key }: Reader, look: Look & { _tag: "Found" }): void {
    const { chunks, sequence, over } = look;
    const first = sequence - chunks.length + 1;
    const tell = (reply: Parameters<typeof rpcFrame>[1], at: number): void => {
      const place = { stream: key, seq: cursorText(look.id, at) };
      this.agent.sockets.sendStored(connection, rpcFrame(id, { ...reply, ...place }));
    };
    chunks.forEach((result, n) => tell({ success: true, result, done: false }, first + n));
    if (over === undefined) return;
    const result = over.result === null ? undefined : (JSON.parse(over.result) as unknown);
    if (over.status === "ended") tell({ success: true, result, done: true }, sequence);
    else tell({ success: false, error: over.error ?? "" }, sequence);
  }

  /** No stream was begun under its key in time. */
  private giveUp(reader: Reader): void {
    const wasThere = reader.at.id !== undefined;
    this.refuse(reader, wasThere ? "The stream was removed" : `There is no stream "${reader.key}"`);
    this.over(reader);
  }

  private refuse(read: StreamRead, error: string): void {
    if (read.asCall === true)
      this.agent.sockets.sendStored(read.connection, rpcFrame(read.id, { success: false, error }));
    else this.frame(read, { error });
  }

  private frame({ connection, id, key }: StreamRead, rest: Omit<StreamFrame, "id" | "key">): void {
    this.agent.sockets.sendStored(connection, streamFrame({ id, key, ...rest }));
  }

  private over(reader: Reader): void {
    const { connection, id } = reader;
    reader.stop();
    const own = this.readers.get(connection);
    if (own?.size === 0) this.readers.delete(connection);
    Connection.internals(connection).reads.delete(id);
    if (connection.readyState === Connection.OPEN) this.agent.sockets.attach(connection);
  }
}
