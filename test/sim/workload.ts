/**
 * What the outside does to an installation in one run, drawn from its seed: webhooks with their
 * repetitions, forged ones, connections that write and look on.
 *
 * A provider repeats its request until it gets a 2xx or has no attempts left, at whichever gateway
 * runs then.
 */
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import { MemorySocket } from "../../services/memory/MemorySocket.ts";
import { agentId } from "../../schemas/Address.ts";
import { sign } from "../../services/webhooks/index.ts";
import type { Installation } from "./Installation.ts";
import type { Connected, SentWebhook } from "./rig/Observed.ts";
import { Random } from "./rig/Random.ts";
import { SECRET } from "./simGateway.ts";
import { DOOMED, Operator } from "./simErase.ts";
import { Errands } from "./simErrands.ts";
import { Calls } from "./simCalls.ts";
import { Marches, Petitions } from "./simMarches.ts";
import { Correspondents } from "./simMail.ts";
import { Restores } from "./simRestores.ts";
import { Trims } from "./simTrim.ts";
import type { Order } from "./subjects.ts";

export const LEDGERS = ["a", "b", "c", "d"] as const;
export const BOARD = "wall";
/** Whose journal is damaged in some runs: it gets marks, and is asked nothing else. */
export const VICTIM = "victim";

const ATTEMPTS_MAX = 6;
const RETRY_MS = 400;
/** A provider that hears nothing for so long hangs up. */
const PATIENCE_MS = 3_000;
const RECONNECT_MS = 250;

const OPS: Readonly<Partial<Record<Order["do"], number>>> = {
  mark: 30, slow: 10, split: 10, flaky: 8, poison: 2, kill: 1, queue: 10, schedule: 12, cancel: 4,
  send: 6, ask: 4, destroy: 2,
}; // prettier-ignore

/** What leaves something in every place where an agent has anything. */
const DOOMED_OPS: typeof OPS = { mark: 5, slow: 2, flaky: 1, poison: 1, queue: 2, schedule: 3 };

export class Workload {
  private readonly installation: Installation;
  private readonly random: Random;
  /** A sequence of its own, so that what goes ahead does not change what is done. */
  private readonly aheadRandom: Random;
  private readonly clients: Client[] = [];
  /** With randomness of their own too. */
  private readonly errands: Errands;
  private readonly correspondents: Correspondents;
  private readonly marches: Marches;
  private readonly calls: Calls;
  private readonly restores: Restores;
  private readonly petitions: Petitions;
  readonly trims: Trims;
  /** As those of errands: orders to an agent that is erased now and then. */
  private readonly eraseRandom: Random;
  private readonly doomed: number;
  /** As those of errands: orders that hold their thread. */
  private readonly spinRandom: Random;
  private readonly spins: number;
  /** As those of errands: agents that hold the thread most of the time. */
  private readonly busyRandom: Random;
  private readonly busy: number;
  private readonly operator: Operator;
  private orders = 0;
  private sending = 0;

  constructor(installation: Installation) {
    this.installation = installation;
    this.random = new Random(installation.seed, "workload");
    this.aheadRandom = new Random(installation.seed, "ahead");
    this.errands = new Errands(installation, (...what) => this.order(...what));
    this.correspondents = new Correspondents(installation, LEDGERS);
    this.calls = new Calls(installation, (...what) => this.send(...what));
    this.marches = new Marches(installation, (...what) => this.send(...what));
    this.restores = new Restores(installation, (...what) => this.send(...what));
    this.petitions = new Petitions(installation, (...what) => this.send(...what));
    const trimmed = [agentId("Board", BOARD), ...LEDGERS.map((name) => agentId("Ledger", name))];
    this.trims = new Trims(installation, trimmed);
    this.eraseRandom = new Random(installation.seed, "erase");
    this.doomed = this.eraseRandom.chance(RUNS_WITH_ERASURE) ? DOOMED_ORDERS : 0;
    this.operator = new Operator(installation);
    this.spinRandom = new Random(installation.seed, "spins");
    this.spins = this.spinRandom.chance(RUNS_WITH_SPINS) ? SPINS : 0;
    this.busyRandom = new Random(installation.seed, "busy");
    this.busy = this.busyRandom.chance(RUNS_WITH_BUSY_AGENTS) ? BUSY_AGENTS : 0;
  }

  /** One thing that the outside does. */
  act(): void {
    const { random } = this;
    this.errands.act();
    this.correspondents.act();
    this.marches.act();
    this.calls.act();
    this.restores.act();
    this.petitions.act();
    this.trims.act();
    if (this.eraseRandom.chance(this.doomed)) this.doom();
    if (this.spinRandom.chance(this.spins)) this.order("spin", this.spinRandom.pick(LEDGERS));
    if (this.busyRandom.chance(this.busy)) this.installation.hold(this.busyRandom.pick(BUSY));
    switch (
      random.weighted({ order: 60, note: 14, connect: 8, forge: 3, victim: 6, leave: 2, claim: 4 })
    ) {
      case "order":
        return void this.order(random.weighted(OPS));
      case "note":
        return this.note(random.pick(this.clients.length > 0 ? this.clients : [undefined]));
      case "connect":
        if (this.clients.length < CLIENTS_MAX) this.connect();
        return;
      case "forge":
        return this.forge();
      case "victim":
        return this.send("Ledger", { id: this.newId(), agent: VICTIM, do: "mark" });
      case "leave":
        return random.pick(this.clients.length > 0 ? this.clients : [undefined])?.leave();
      case "claim":
        // A call of an agent that may have no journal yet.
        return void this.get("Ledger", random.pick(LEDGERS)).catch(() => undefined);
    }
  }

  /** Sends one order to a ledger; some come twice, at once or later. */
  order(
    op: Order["do"],
    agent: string = this.random.pick(LEDGERS),
    more: Partial<Order> = {},
  ): Order {
    const { random } = this;
    const order: Order = {
      id: this.newId(),
      agent,
      do: op,
      ms: op === "split" ? random.int(1, 20) : random.int(1, 1_500),
      fails: random.int(0, 3),
      when: random.pick(["delay", "date", "interval", "cron"] as const),
      other: random.pick(LEDGERS.filter((name) => name !== agent)),
      ...more,
    };
    this.send("Ledger", order);
    if (random.chance(REPEATED))
      this.installation.time.after(random.pick([0, 0, 50, 2_000]), () =>
        this.send("Ledger", order),
      );
    return order;
  }

  /** Resolves when the provider is done with it. */
  send(className: string, order: Order): void {
    this.sending++;
    void this.deliver(className, order).finally(() => this.sending--);
  }

  /** Every provider is done with what it was to send, and every caller with what it asks. */
  get isSent(): boolean {
    return this.sending === 0 && this.calls.isAnswered;
  }

  /** The operator is done with restores. */
  get isPutBack(): boolean {
    return this.restores.isDone;
  }

  async deliver(className: string, order: Order): Promise<SentWebhook> {
    const { observed, time } = this.installation;
    let sent = observed.sent.get(order.id);
    if (sent === undefined) {
      sent = { id: order.id, agent: order.agent, op: order.do, statuses: [], applied: false };
      observed.sent.set(order.id, sent);
    }
    const body = JSON.stringify(order);
    const headers = sign.github(body, SECRET, { id: order.id });
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const { status, text } = await this.post(`/hooks/${className}`, headers, body);
      sent.statuses.push(status);
      if (text === "applied") sent.applied = true;
      this.installation.weather.trace.add(`sender ${order.id} ${order.do} hears ${status} ${text}`);
      if (status >= 200 && status < 300) break;
      await new Promise<void>((resolve) => void time.after(RETRY_MS, resolve));
    }
    return sent;
  }

  /** The status and the body of a GET of an agent; 0 when no answer came. */
  get(className: string, name: string): Promise<{ status: number; text: string }> {
    return this.ask(requestOf("GET", `/agents/${className.toLowerCase()}/${name}`, {}), "");
  }

  /** True: nothing is left of the agent that the operator erases, as far as it was told. */
  erase(): Promise<boolean> {
    return this.operator.erase();
  }

  /** Errands that wait for somebody go on; false: none does. */
  goOn(): Promise<boolean> {
    return this.errands.goOn();
  }

  /** Orders for an agent that is erased, and the command itself in the midst of them. */
  private doom(): void {
    if (this.eraseRandom.chance(ERASURES)) void this.operator.erase();
    else this.order(this.eraseRandom.weighted(DOOMED_OPS), DOOMED);
  }

  /** Writes the board's last note, so that every client hears of it. */
  touch(): Promise<{ status: number; text: string }> {
    return this.ask(requestOf("POST", `/agents/board/${BOARD}`, {}), "the last");
  }

  /** Every client that is gone comes back, so that all can be compared at rest. */
  reconnectAll(): void {
    for (const client of this.clients) client.stay();
  }

  /** One note, or several without a wait for what becomes of those before, at once or in a row. */
  private note(client: Client | undefined): void {
    const ahead = this.aheadRandom;
    client?.write(this.newId());
    if (!ahead.chance(AHEAD)) return;
    const more = ahead.int(1, AHEAD_MAX);
    const gapMs = ahead.pick([0, 0, 1, 3]);
    for (let n = 1; n <= more; n++) {
      const id = `x${++this.orders}-${ahead.int(0, ID_NOISE_MAX)}`;
      if (gapMs === 0) client?.write(id);
      else this.installation.time.after(n * gapMs, () => client?.write(id));
    }
  }

  private connect(): void {
    const { random } = this;
    const kind = random.weighted({ writer: 3, reader: 2, watcher: 2 });
    const className = kind === "watcher" ? "Ledger" : "Board";
    const agent = className === "Board" ? BOARD : random.pick(LEDGERS);
    const name = `client-${this.clients.length + 1}`;
    const client = new Client(this.installation, random, {
      name, className, agent, readonly: kind === "reader",
    }); // prettier-ignore
    this.clients.push(client);
    client.connect();
  }

  private forge(): void {
    const { observed } = this.installation;
    const id = this.newId();
    observed.forbidden.push(id);
    const body = JSON.stringify({ id, agent: this.random.pick(LEDGERS), do: "mark" });
    const headers = sign.github(body, "not the secret", { id });
    void this.post("/hooks/Ledger", headers, body).then(({ status }) =>
      observed.forged.push(status),
    );
  }

  private post(
    target: string,
    headers: Readonly<Record<string, string>>,
    body: string,
  ): Promise<{ status: number; text: string }> {
    return this.ask(
      requestOf("POST", target, { ...headers, "content-type": "application/json" }),
      body,
    );
  }

  private ask(request: HttpRequest, body: string): Promise<{ status: number; text: string }> {
    const { gatewaysAlive, time } = this.installation;
    const gateway = gatewaysAlive.length === 0 ? undefined : this.random.pick(gatewaysAlive);
    return new Promise((resolve) => {
      const cancel = time.after(PATIENCE_MS, () => resolve({ status: 0, text: "" }));
      void gateway?.request(request, encoder.encode(body)).then((response) => {
        cancel();
        const { status, body: bytes = "" } = response;
        const text = typeof bytes === "string" ? bytes : decoder.decode(bytes);
        resolve({ status, text });
      });
    });
  }

  private newId(): string {
    return `x${++this.orders}-${this.random.int(0, ID_NOISE_MAX)}`;
  }
}

/** A client of an agent, through all its connections. */
class Client {
  private readonly installation: Installation;
  private readonly random: Random;
  private readonly who: Pick<Connected, "name" | "className" | "agent" | "readonly">;
  private socket: MemorySocket | undefined;
  private left = false;
  private readonly wrote: string[] = [];
  /** The part of `wrote` that this connection sent. */
  private sent: string[] = [];
  private connecting = false;

  constructor(installation: Installation, random: Random, who: Client["who"]) {
    this.installation = installation;
    this.random = random;
    this.who = who;
  }

  connect(): void {
    const { gatewaysAlive, observed, time } = this.installation;
    const gateway = gatewaysAlive.length === 0 ? undefined : this.random.pick(gatewaysAlive);
    if (this.connecting || this.left || this.socket !== undefined) return;
    this.connecting = true;
    const { className, agent, readonly, name } = this.who;
    this.sent = [];
    const seen: Connected = {
      ...this.who,
      states: [],
      wrote: this.wrote,
      sent: this.sent,
      acked: [],
      refusals: 0,
      stale: 0,
      open: false,
    };
    observed.connections.push(seen);
    let over = false;
    const again = (): void => {
      if (over) return;
      over = true;
      seen.open = false;
      this.socket = undefined;
      this.connecting = false;
      time.after(RECONNECT_MS, () => this.connect());
    };
    const query = `_pk=${name}${readonly ? "&readonly=1" : ""}`;
    const target = `/agents/${className.toLowerCase()}/${agent}?${query}`;
    const upgrade = { upgrade: "websocket", connection: "Upgrade" };
    // A gateway that dies in mid-upgrade never answers.
    const cancel = time.after(PATIENCE_MS * 2, again);
    const peer = { onMessage: (data: string | Uint8Array) => hear(seen, data), onClose: again };
    void gateway?.connect(requestOf("GET", target, upgrade), peer).then((result) => {
      cancel();
      this.connecting = false;
      if (over || !(result instanceof MemorySocket)) return again();
      this.socket = result;
      seen.open = true;
    });
  }

  /** A message or a state of its own; a readonly connection's must change nothing. */
  write(note: string): void {
    if (this.socket === undefined || this.who.className !== "Board") return;
    if (this.who.readonly) this.installation.observed.forbidden.push(note);
    this.wrote.push(note);
    this.sent.push(note);
    const asState = this.random.chance(0.5);
    this.socket.toServer(
      asState ? JSON.stringify({ type: "cf_agent_state", state: { note, n: 0 } }) : note,
    );
  }

  leave(): void {
    const { socket } = this;
    if (this.random.chance(0.5)) socket?.leave(1000, "");
    else socket?.cut();
  }

  stay(): void {
    this.connect();
  }
}

function hear(seen: Connected, data: string | Uint8Array): void {
  const text = String(data);
  if (text.startsWith("taken ")) seen.acked.push(text.slice("taken ".length));
  if (!text.startsWith("{")) return;
  const frame = JSON.parse(text) as { type?: string; state?: unknown; seq?: number };
  if (frame.type === "cf_agent_state_error") seen.refusals++;
  if (frame.type !== "cf_agent_state") return;
  // As our client does: an owner of before may hear of its commit late, and tell of it then.
  const { state, seq = 0 } = frame;
  if (seq < (seen.states.at(-1)?.seq ?? 0)) seen.stale++;
  else seen.states.push({ state, seq });
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function requestOf(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
): HttpRequest {
  const all: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  for (const [name, value] of Object.entries({ host: "sim.example", ...headers }))
    all[name] = [value];
  return { method, target, headers: all, remoteAddress: "192.0.2.1", secure: false };
}

const RUNS_WITH_ERASURE = 0.35;
const DOOMED_ORDERS = 0.2;
const ERASURES = 0.15;
const RUNS_WITH_SPINS = 0.35;
/** The share of steps that spin, in such runs. */
const SPINS = 0.06;
const RUNS_WITH_BUSY_AGENTS = 0.35;
/** The share of steps at which an agent is found to be busy, in such runs. */
const BUSY_AGENTS = 0.1;
const BUSY = [agentId("Board", BOARD), ...LEDGERS.map((name) => agentId("Ledger", name))];
const CLIENTS_MAX = 4;
/** The share of notes that others follow at once; and how many. */
const AHEAD = 0.6;
const AHEAD_MAX = 20;
/** The share of webhooks that the provider sends a second time though nothing went wrong. */
const REPEATED = 0.25;
/** Tells ids of one run apart in a trace; their number does that already. */
const ID_NOISE_MAX = 999;
