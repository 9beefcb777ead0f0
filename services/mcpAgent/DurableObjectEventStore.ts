/**
 * What an MCP session has sent, in its agent's own database: a client whose stream broke asks for
 * what followed the last event that it has, also after another host took the agent over.
 *
 * 1. An event is stored before it is sent: the response's stream passes the agent's output gate.
 * 2. A stream of a request is over when each of its requests is answered. An answered stream stays
 *    until `STREAMS_KEPT` later ones are answered.
 * 3. Requests that were running when the agent left memory are answered with an error at its next
 *    start (`interrupted`): nobody else would answer them.
 */
import type { EventId, EventStore, StreamId } from "@modelcontextprotocol/sdk/server/streamableHttp.js"; // prettier-ignore
import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/sdk/types.js";
import type { AgentStorage } from "../../core/database/AgentStorage.ts";
import { MCP_EVENTS, MCP_STREAMS } from "../../core/mcp/mcpSessionTables.ts";
import { requestsOfContext } from "./requestContext.ts";

/** A client that lost its connection comes back within a few calls. */
const STREAMS_KEPT = 32;
/** The bounds of a whole session, whose client may never come back. */
const EVENTS_MAX = 1_000;
const BYTES_MAX = 16 * 1024 * 1024;
/** Events no longer than this are not summed: `EVENTS_MAX` of them are about `BYTES_MAX`. */
const SHORT = BYTES_MAX / EVENTS_MAX;

/** The SDK's name of the stream that no request opened. It is never over. */
export const STANDALONE_STREAM = "_GET_stream";

const EVENTS = `CREATE TABLE IF NOT EXISTS ${MCP_EVENTS} (id INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, message TEXT NOT NULL)`;
const STREAMS = `CREATE TABLE IF NOT EXISTS ${MCP_STREAMS} (stream TEXT PRIMARY KEY, waiting TEXT NOT NULL, over INTEGER)`;

/** Pass it as the `eventStore` of a transport. `storage` is the agent's `ctx.storage`. */
export class DurableObjectEventStore implements EventStore {
  readonly #storage: AgentStorage;

  constructor(storage: AgentStorage) {
    this.#storage = storage;
  }

  /** Stores one message of a stream. Resolves to the event's id. */
  async storeEvent(stream: StreamId, message: JSONRPCMessage): Promise<EventId> {
    return this.#storage.transactionSync(() => {
      this.#begin(stream);
      const text = JSON.stringify(message);
      this.#exec(`INSERT INTO ${MCP_EVENTS} (stream, message) VALUES (?, ?)`, stream, text);
      const [{ id }] = this.#exec<{ id: number }>(`SELECT max(id) AS id FROM ${MCP_EVENTS}`) as [{ id: number }]; // prettier-ignore
      this.#exec(`DELETE FROM ${MCP_EVENTS} WHERE id <= ?`, id - EVENTS_MAX);
      if (text.length > SHORT) this.#shorten(id);
      if ("id" in message && !("method" in message)) this.#answered(stream, message.id, id);
      return `${stream}:${id}`;
    });
  }

  /**
   * The stream of an event; undefined for an id of another session, and for a stream that is not
   * kept any more. The SDK's transport refuses those, and would keep the client waiting otherwise.
   */
  async getStreamIdForEventId(event: EventId): Promise<StreamId | undefined> {
    const stream = parse(event)?.stream;
    if (stream === undefined || stream === STANDALONE_STREAM) return stream;
    this.#tables();
    const known = this.#exec(
      `SELECT 1 FROM ${MCP_STREAMS} WHERE stream = ? UNION ALL SELECT 1 FROM ${MCP_EVENTS} WHERE stream = ? LIMIT 1`,
      stream,
      stream,
    );
    return known.length === 0 ? undefined : stream;
  }

  /** Sends what followed an event in its stream, in order. Resolves to the stream. */
  async replayEventsAfter(
    event: EventId,
    { send }: { readonly send: (id: EventId, message: JSONRPCMessage) => Promise<void> },
  ): Promise<StreamId> {
    const place = parse(event);
    if (place === undefined) throw new Error(`${event} is not an event of this session`);
    for (const { id, message } of this.#after(place)) await send(id, message);
    return place.stream;
  }

  /** Removes what a stream has sent. */
  async clearStream(stream: StreamId): Promise<void> {
    this.#tables();
    this.#exec(`DELETE FROM ${MCP_EVENTS} WHERE stream = ?`, stream);
    this.#exec(`DELETE FROM ${MCP_STREAMS} WHERE stream = ?`, stream);
  }

  /** What followed an event, if its stream is over; undefined for a stream that may continue. */
  endAfter(event: EventId): ReadonlyArray<{ id: EventId; message: JSONRPCMessage }> | undefined {
    const place = parse(event);
    if (place === undefined) return undefined;
    this.#tables();
    const [row] = this.#exec<{ over: number | null }>(
      `SELECT over FROM ${MCP_STREAMS} WHERE stream = ?`,
      place.stream,
    );
    return row === undefined || row.over === null ? undefined : this.#after(place);
  }

  /** Rule 3. `answer` makes the message for a request that nobody will answer any more. */
  async interrupted(answer: (request: RequestId) => JSONRPCMessage): Promise<void> {
    this.#tables();
    const open = this.#exec<{ stream: string; waiting: string }>(
      `SELECT stream, waiting FROM ${MCP_STREAMS} WHERE over IS NULL`,
    );
    for (const { stream, waiting } of open)
      for (const request of JSON.parse(waiting) as RequestId[])
        await this.storeEvent(stream, answer(request));
  }

  /** Removes the oldest events past the bound. The newest stays, however long it is. */
  #shorten(newest: number): void {
    this.#exec(
      `DELETE FROM ${MCP_EVENTS} WHERE id < ? AND id IN (SELECT id FROM (SELECT id, sum(octet_length(message)) OVER (ORDER BY id DESC) AS bytes FROM ${MCP_EVENTS}) WHERE bytes > ?)`,
      newest,
      BYTES_MAX,
    );
  }

  /** The first event of a stream that answers requests notes which. */
  #begin(stream: StreamId): void {
    this.#tables();
    const requests = requestsOfContext();
    if (requests === undefined || requests.stream !== undefined) return;
    if (stream === STANDALONE_STREAM) return;
    requests.stream = stream;
    this.#exec(`INSERT OR IGNORE INTO ${MCP_STREAMS} (stream, waiting) VALUES (?, ?)`, stream, JSON.stringify(requests.ids)); // prettier-ignore
  }

  /** Rule 2. */
  #answered(stream: StreamId, request: unknown, event: number): void {
    const [row] = this.#exec<{ waiting: string }>(
      `SELECT waiting FROM ${MCP_STREAMS} WHERE stream = ?`,
      stream,
    );
    if (row === undefined) return;
    const waiting = (JSON.parse(row.waiting) as RequestId[]).filter((id) => id !== request);
    this.#exec(`UPDATE ${MCP_STREAMS} SET waiting = ?, over = ? WHERE stream = ?`, JSON.stringify(waiting), waiting.length === 0 ? event : null, stream); // prettier-ignore
    const old = this.#exec<{ stream: string }>(
      `SELECT stream FROM ${MCP_STREAMS} WHERE over IS NOT NULL ORDER BY over DESC LIMIT -1 OFFSET ?`,
      STREAMS_KEPT,
    );
    for (const each of old) {
      this.#exec(`DELETE FROM ${MCP_EVENTS} WHERE stream = ?`, each.stream);
      this.#exec(`DELETE FROM ${MCP_STREAMS} WHERE stream = ?`, each.stream);
    }
  }

  #after({ stream, id }: Place): Array<{ id: EventId; message: JSONRPCMessage }> {
    this.#tables();
    return this.#exec<{ id: number; message: string }>(
      `SELECT id, message FROM ${MCP_EVENTS} WHERE stream = ? AND id > ? ORDER BY id`,
      stream,
      id,
    ).map((row) => ({
      id: `${stream}:${row.id}`,
      message: JSON.parse(row.message) as JSONRPCMessage,
    }));
  }

  #tables(): void {
    this.#exec(EVENTS);
    this.#exec(STREAMS);
  }

  #exec<Row>(sql: string, ...bindings: Array<string | number | null>): Row[] {
    return this.#storage.sql.exec<Row>(sql, ...bindings).toArray();
  }
}

interface Place {
  readonly stream: StreamId;
  readonly id: number;
}

function parse(event: EventId): Place | undefined {
  const colon = event.lastIndexOf(":");
  const id = Number(event.slice(colon + 1));
  return colon < 1 || !Number.isInteger(id) ? undefined : { stream: event.slice(0, colon), id };
}
