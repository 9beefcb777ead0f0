/**
 * The port `Isolation` in a worker: passes work of isolated agents to the control process,
 * which has their processes (`IsolationWard`). Fed by `workerLink`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type {
  AgentKey,
  IsolatedAsk,
  IsolatedOwner,
  IsolatedReply,
  Isolation,
} from "../../core/input/Isolation.ts";
import { nameOf, type Begin, type FromWorker, type IsolateAnswer } from "./messages.ts";

export class ChannelIsolation implements Isolation {
  endedHost: string | undefined;
  private readonly held = new Set<string>();
  private readonly waiting = new Map<number, (reply: IsolatedReply) => void>();
  private last = 0;
  private isClosed = false;
  private onIsolated = (_id: AgentId): void => undefined;
  private onReturned = (_id: AgentId): void => undefined;

  constructor(private readonly send: (message: FromWorker) => void) {}

  holds(id: AgentId): boolean {
    return this.held.size > 0 && this.held.has(nameOf(id));
  }

  ask(id: AgentId, owner: IsolatedOwner, ask: IsolatedAsk): Promise<IsolatedReply> {
    if (this.isClosed) return Promise.resolve({ kind: "ended" });
    const n = ++this.last;
    return new Promise((resolve) => {
      this.waiting.set(n, resolve);
      const agent = { class: id.class, name: id.name };
      this.send({ isolate: { n, agent, owner, ask } });
    });
  }

  onIsolate(f: (id: AgentId) => void): void {
    this.onIsolated = f;
  }

  onReturn(f: (id: AgentId) => void): void {
    this.onReturned = f;
  }

  left({ class: ofClass, name }: AgentId): void {
    if (this.held.delete(nameOf({ class: ofClass, name })))
      this.send({ left: { class: ofClass, name } });
  }

  lost({ class: ofClass, name }: AgentId): void {
    this.send({ lost: { class: ofClass, name } });
  }

  newCode(): void {
    if (this.held.size > 0) this.send({ newCode: true });
  }

  // From the channel

  begin({ isolated, endedHost }: Pick<Begin, "isolated" | "endedHost">): void {
    this.endedHost = endedHost;
    for (const agent of isolated) this.held.add(nameOf(agent));
  }

  isolates(agent: AgentKey): void {
    this.held.add(nameOf(agent));
    this.onIsolated(agent as AgentId);
  }

  answered({ n, reply }: IsolateAnswer): void {
    this.waiting.get(n)?.(reply);
    this.waiting.delete(n);
  }

  returned(agent: AgentKey): void {
    this.onReturned(agent as AgentId);
  }

  /** The control process has ended. */
  closed(): void {
    this.isClosed = true;
    for (const answer of this.waiting.values()) answer({ kind: "ended" });
    this.waiting.clear();
  }
}
