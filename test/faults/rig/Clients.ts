/** Clients of the boards, by sockets and HTTP. Records what each wrote, was answered and saw. */
import WebSocket from "ws";
import { pollUntil } from "../../kit/poll.ts";
import type { Random } from "../../sim/rig/Random.ts";

export const BOARDS = ["north", "south", "east"];
const SOCKETS_PER_BOARD = 4;
/** The last of those is readonly. */
const READONLY = SOCKETS_PER_BOARD - 1;
/** Between two things that clients do, at the usual pace. */
const PACE_MS = 40;
const RECONNECT_MS = 200;
/** After this long without an answer a caller gives up. It never repeats a call. */
const PATIENCE_MS = 6_000;
/** One that was lost in a frozen process is closed by the client. */
const PING_MS = 1_000;
const SILENCE_MS = 6_000;

/** One state that a socket received, with its sequence. */
export interface Seen {
  readonly seq: number;
  readonly state: unknown;
}

export interface Note {
  readonly board: string;
  readonly note: string;
  /** The writer was told that it is stored. */
  taken: boolean;
  readonly forbidden: boolean;
  /** True: sent by HTTP. False: by a socket, whose message runs again if its agent was lost. */
  readonly byHttp: boolean;
}

export class Client {
  readonly board: string;
  readonly readonly: boolean;
  /** What an `AgentClient` shows: states in order, a late one left out. One list a connection. */
  readonly seen: Seen[][] = [];
  reconnects = -1;
  closed = false;
  private socket: WebSocket | undefined;
  private readonly urls: () => string;
  private readonly notes: Map<string, Note>;

  constructor(board: string, readonly: boolean, urls: () => string, notes: Map<string, Note>) {
    this.board = board;
    this.readonly = readonly;
    this.urls = urls;
    this.notes = notes;
    this.connect();
  }

  get last(): unknown {
    return this.seen.at(-1)?.at(-1)?.state;
  }

  write(note: string): void {
    if (this.socket?.readyState !== WebSocket.OPEN) return;
    const forbidden = this.readonly;
    this.notes.set(note, { board: this.board, note, taken: false, forbidden, byHttp: false });
    if (forbidden)
      this.socket.send(JSON.stringify({ type: "cf_agent_state", state: { note, n: 0 } }));
    else this.socket.send(note);
  }

  end(): void {
    this.closed = true;
    this.socket?.terminate();
  }

  private connect(): void {
    if (this.closed) return;
    this.reconnects++;
    const seen: Seen[] = [];
    this.seen.push(seen);
    const query = this.readonly ? "?readonly" : "";
    const url = `${this.urls().replace("http", "ws")}/agents/board/${this.board}${query}`;
    const socket = new WebSocket(url, { handshakeTimeout: PATIENCE_MS });
    this.socket = socket;
    let heardMs = performance.now();
    const timer = setInterval(() => {
      if (performance.now() - heardMs > SILENCE_MS) socket.terminate();
      else if (socket.readyState === WebSocket.OPEN) socket.ping();
    }, PING_MS);
    socket.on("pong", () => (heardMs = performance.now()));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(timer);
      setTimeout(() => this.connect(), RECONNECT_MS);
    });
    socket.on("message", (data) => {
      heardMs = performance.now();
      const text = String(data);
      if (text.startsWith("taken ")) {
        const note = this.notes.get(text.slice("taken ".length));
        if (note !== undefined) note.taken = true;
        return;
      }
      const frame = JSON.parse(text) as { type?: string; state?: unknown; seq?: number };
      if (frame.type !== "cf_agent_state" || frame.seq === undefined) return;
      if (frame.seq >= (seen.at(-1)?.seq ?? 0)) seen.push({ seq: frame.seq, state: frame.state });
    });
  }
}

export class Clients {
  readonly notes = new Map<string, Note>();
  readonly all: Client[] = [];
  private readonly random: Random;
  private readonly urls: ReadonlyArray<string>;
  private readonly paceMs: number;
  private readonly calls = new Set<Promise<void>>();
  private readonly acting: Promise<void>;
  private ended = false;
  private next = 0;

  /** `slower`: so many times slower than usual. */
  constructor(random: Random, urls: ReadonlyArray<string>, slower = 1) {
    this.random = random;
    this.urls = urls;
    this.paceMs = slower * PACE_MS;
    for (const board of BOARDS)
      for (let n = 0; n < SOCKETS_PER_BOARD; n++)
        this.all.push(new Client(board, n === READONLY, () => random.pick(this.urls), this.notes));
    this.acting = this.act();
  }

  get reconnects(): number {
    return this.all.reduce((sum, { reconnects }) => sum + reconnects, 0);
  }

  /** Stops all writers; resolves when every call was answered or given up. */
  async finish(): Promise<void> {
    this.ended = true;
    await this.acting;
    await Promise.all(this.calls);
  }

  /** I9: resolves when every client shows its board's state; else the error says who does not. */
  async settled(timeoutMs: number): Promise<void> {
    await pollUntil(
      "every client shows the last state of its board",
      async () => {
        const wrong: unknown[] = [];
        for (const board of BOARDS) {
          const response = await fetch(`${this.urls[0]}/agents/board/${board}`);
          const state = JSON.stringify(await response.json());
          for (const client of this.all)
            if (client.board === board && JSON.stringify(client.last) !== state)
              wrong.push({ board, state, shows: client.last, connections: client.seen.length });
        }
        return wrong.length === 0 || { done: false, saw: wrong };
      },
      { timeoutMs, intervalMs: 100 },
    );
  }

  end(): void {
    this.ended = true;
    for (const client of this.all) client.end();
  }

  private async act(): Promise<void> {
    const { random } = this;
    while (!this.ended) {
      const note = `note-${this.next++}`;
      if (random.chance(0.3)) this.call(random.pick(BOARDS), note);
      else random.pick(this.all).write(note);
      await new Promise((resolve) => setTimeout(resolve, this.paceMs));
    }
  }

  private call(board: string, text: string): void {
    const note: Note = { board, note: text, taken: false, forbidden: false, byHttp: true };
    this.notes.set(text, note);
    const call = fetch(`${this.random.pick(this.urls)}/agents/board/${board}`, {
      method: "POST",
      body: text,
      signal: AbortSignal.timeout(PATIENCE_MS),
    })
      .then(async (response) => {
        await response.text();
        note.taken = response.ok;
      })
      // No answer: it may be stored or not.
      .catch(() => undefined)
      .finally(() => this.calls.delete(call));
    this.calls.add(call);
  }
}
