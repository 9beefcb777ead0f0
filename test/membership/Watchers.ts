/**
 * Clients that stay connected while everything behind them is restarted: half by our `AgentClient`,
 * half plain WebSockets that connect again at once. Records for each why it was closed, how long it
 * was without a connection, and the last state that it saw.
 */
import { WebSocket } from "ws";
import type { AgentClient } from "../../services/client/AgentClient.ts";
import { pollUntil } from "../kit/poll.ts";
import { openClient, type MemberStub } from "./Callers.ts";

/** Clients of a rolling restart are back within seconds, also on a busy machine. */
const BACK_TIMEOUT_MS = 60_000;

export type Kind = "AgentClient" | "plain";

export interface Closed {
  readonly kind: Kind;
  readonly code: number;
  /** Until it had its agent's state again; undefined while it has not. */
  backMs: number | undefined;
}

export class Watchers {
  readonly closed: Closed[] = [];
  private readonly url: string;
  private readonly counts = new Map<number, { readonly agent: string; count: number }>();
  private readonly clients: AgentClient<MemberStub>[] = [];
  private readonly sockets = new Set<WebSocket>();
  private stopped = false;

  private constructor(url: string) {
    this.url = url;
  }

  /** Resolves when each has its agent's state. */
  static async open(
    url: string,
    agents: ReadonlyArray<string>,
    clients: number,
  ): Promise<Watchers> {
    const watchers = new Watchers(url);
    for (let n = 0; n < clients; n++) {
      const agent = agents[Math.floor(n / 2) % agents.length]!;
      if (n % 2 === 0) watchers.openOurs(n, agent);
      else watchers.openPlain(n, agent);
    }
    await pollUntil(
      `${clients} clients see a state`,
      () => watchers.counts.size === clients || { done: false, saw: watchers.counts.size },
      { timeoutMs: BACK_TIMEOUT_MS },
    );
    return watchers;
  }

  /** Resolves when each that was closed is back. */
  async allBack(): Promise<void> {
    await pollUntil(
      "every client is back",
      () => {
        const away = this.closed.filter(({ backMs }) => backMs === undefined);
        return away.length === 0 || { done: false, saw: away };
      },
      { timeoutMs: BACK_TIMEOUT_MS },
    );
  }

  /** Resolves when each has seen the count that `agents` are at. */
  async allSee(counts: ReadonlyMap<string, number>): Promise<void> {
    await pollUntil(
      "every client has its agent's last state",
      () => {
        const behind = [...this.counts.values()].filter((c) => c.count !== counts.get(c.agent));
        return behind.length === 0 || { done: false, saw: [behind.length, behind.slice(0, 5)] };
      },
      { timeoutMs: BACK_TIMEOUT_MS },
    );
  }

  stop(): void {
    this.stopped = true;
    for (const client of this.clients) client.close();
    for (const socket of this.sockets) socket.terminate();
  }

  private openOurs(n: number, agent: string): void {
    const client = openClient(this.url, agent);
    this.clients.push(client);
    let closing: ((code: number) => void) | undefined;
    client.addEventListener("close", ({ code }) => {
      closing ??= this.away("AgentClient");
      closing(code);
    });
    client.addEventListener("message", ({ data }) => {
      if (!this.saw(n, agent, String(data))) return;
      closing?.(0);
      closing = undefined;
    });
  }

  private openPlain(n: number, agent: string, away?: (code: number) => void): void {
    if (this.stopped) return;
    const socket = new WebSocket(`${this.url.replace("http", "ws")}/agents/member/${agent}`);
    this.sockets.add(socket);
    let closing = away;
    socket.on("error", () => undefined);
    socket.on("close", (code) => {
      this.sockets.delete(socket);
      closing ??= this.away("plain");
      closing(code);
      this.openPlain(n, agent, closing);
    });
    socket.on("message", (data) => {
      if (!this.saw(n, agent, String(data))) return;
      closing?.(0);
      closing = undefined;
    });
  }

  private saw(n: number, agent: string, text: string): boolean {
    const frame = JSON.parse(text) as { type?: string; state?: { count: number } };
    if (frame.type !== "cf_agent_state" || frame.state === undefined) return false;
    this.counts.set(n, { agent, count: frame.state.count });
    return true;
  }

  /** Reports an absence: first its code, then 0 when it is over; further codes don't count. */
  private away(kind: Kind): (code: number) => void {
    const startMs = performance.now();
    let entry: Closed | undefined;
    return (code) => {
      if (this.stopped) return;
      if (entry === undefined) this.closed.push((entry = { kind, code, backMs: undefined }));
      else if (code === 0) entry.backMs = performance.now() - startMs;
    };
  }
}
