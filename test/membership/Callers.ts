/** Callers by HTTP and RPC, each at its own pace until stopped. Their errors are kept. */
import { WebSocket } from "ws";
import { AgentClient } from "../../services/client/AgentClient.ts";

/** What `Member` offers to clients. */
export interface MemberStub {
  add(): number;
  start(): void;
  enqueue(jobs: number, slowMs: number): void;
}

export interface Call {
  readonly ms: number;
}

/** One caller: a call after another, `paceMs` apart. */
export class Caller {
  readonly answered: Call[] = [];
  readonly errors: string[] = [];
  private stopped = false;
  private readonly ended: Promise<void>;

  constructor(call: () => Promise<unknown>, paceMs: number) {
    this.ended = this.go(call, paceMs);
  }

  /** Resolves when its last call has ended. */
  stop(): Promise<void> {
    this.stopped = true;
    return this.ended;
  }

  private async go(call: () => Promise<unknown>, paceMs: number): Promise<void> {
    while (!this.stopped) {
      const startMs = performance.now();
      try {
        await call();
        this.answered.push({ ms: performance.now() - startMs });
      } catch (error) {
        this.errors.push(String(error));
      }
      await new Promise((resolve) => setTimeout(resolve, paceMs));
    }
  }
}

/** A GET of what the agent answers, a member's state; rejects when it is no 200. */
export async function getState<State>(
  url: string,
  name: string,
  agent: string = "member",
): Promise<State> {
  const response = await fetch(`${url}/agents/${agent}/${name}`);
  if (!response.ok) throw new Error(`status ${response.status}: ${await response.text()}`);
  return (await response.json()) as State;
}

/** Our client, as in a browser; it connects again by itself. */
export function openClient<Stub = MemberStub>(
  url: string,
  name: string,
  agent: string = "member",
): AgentClient<Stub> {
  return new AgentClient<Stub>({
    agent,
    name,
    host: new URL(url).host,
    protocol: "ws",
    // The package's own; its class is what a browser has.
    WebSocket,
  });
}
