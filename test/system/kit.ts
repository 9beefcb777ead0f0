/** Shared by system tests: a nats-server a file, systems, a plain client, signed requests. */
import { sign as octokitSign } from "@octokit/webhooks-methods";
import { connect } from "@nats-io/transport-node";
import { jetstreamManager } from "@nats-io/jetstream";
import { afterAll, beforeAll } from "vitest";
import WebSocket from "ws";
import { agentId } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { startNats, type TestNats, type TestNatsOptions } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { openInspector, startSystem, type SystemOptions, type TestModule } from "../kit/system.ts";

export const SECRET = "It's a Secret to Everybody";
/** Fewer than in production: each costs a consumer when a host starts. */
const SHARDS = 4;
/** For hosts that are stopped, not killed: they keep their shards when the machine stands still. */
const LEASE_TTL_MS = 30_000;

export type System = Awaited<ReturnType<typeof startSystem>>;
export type StartOptions = Omit<SystemOptions, "nats" | "module"> & { readonly folder?: string };

export interface Systems {
  readonly nats: TestNats;
  /** The options of a new namespace, for hosts and gateways started singly; the test closes it. */
  readonly options: (module: TestModule, options?: StartOptions) => SystemOptions;
  /** A gateway and a host, stopped at the file's end at the latest. */
  readonly start: (
    module: TestModule,
    options?: StartOptions,
  ) => Promise<System & { readonly options: SystemOptions }>;
}

/** One nats-server for the tests of a file. */
export function useSystems(natsOptions: TestNatsOptions = {}): Systems {
  let nats: TestNats | undefined;
  const stops: Array<() => Promise<void>> = [];
  let namespaces = 0;
  beforeAll(async () => {
    nats = await startNats(natsOptions);
  });
  afterAll(async () => {
    for (const stop of stops.toReversed()) await stop();
    await nats?.stop();
  });
  const options = (module: TestModule, more: StartOptions = {}): SystemOptions => ({
    nats: nats!.url,
    namespace: `t${++namespaces}`,
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    module,
    ...more,
  });
  return {
    get nats() {
      return nats!;
    },
    options,
    start: async (module, more = {}) => {
      const used = options(module, more);
      const system = await startSystem({ ...used, ...more });
      let stopped: Promise<void> | undefined;
      const stop = () => (stopped ??= system.stop());
      stops.push(stop);
      return { ...system, stop, options: used };
    },
  };
}

/** The events of one agent's journal. */
export async function journalOf(
  options: SystemOptions,
  className: string,
  name: string,
): Promise<JournalHead[]> {
  const inspector = await openInspector(options);
  try {
    const heads: JournalHead[] = [];
    for await (const { data } of inspector.journal.read(agentId(className, name), {
      fromSeq: 1 as never,
    }))
      heads.push(decodeEvent(data).head);
    return heads;
  } finally {
    await inspector.close();
  }
}

/** The last dead letter of one agent; undefined when it has none. */
export async function deadLetterOf(options: SystemOptions, className: string, name: string) {
  const client = await connect({ servers: options.nats.replace("nats://", "") });
  try {
    const subjects = new Subjects(options.namespace);
    const manager = await jetstreamManager(client);
    const found = await manager.streams
      .getMessage(subjects.stream.dead, { last_by_subj: subjects.dead(agentId(className, name)) })
      .catch(() => null);
    return found === null ? undefined : decodeDeadLetter(found.data).head;
  } finally {
    await client.close();
  }
}

/** A plain WebSocket that keeps every frame from the first on. */
export class TestSocket {
  readonly frames: Array<string | Buffer> = [];
  readonly socket: WebSocket;
  closed: { readonly code: number; readonly reason: string } | undefined;
  /** What broke it, where something did: told by a check that waits in vain. */
  error: Error | undefined;
  /** Status of a refused upgrade. */
  refused: { readonly status: number; readonly body: string } | undefined;

  private constructor(url: string, headers: Record<string, string>) {
    this.socket = new WebSocket(url.replace(/^http/, "ws"), { headers });
    this.socket.on("message", (data, binary) =>
      this.frames.push(binary ? (data as Buffer) : String(data)),
    );
    this.socket.on("close", (code, reason) => (this.closed = { code, reason: String(reason) }));
    this.socket.on("error", (error) => (this.error = error));
    this.socket.on("unexpected-response", (_request, response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("end", () => {
        this.refused = { status: response.statusCode ?? 0, body: String(Buffer.concat(parts)) };
        this.socket.terminate();
      });
    });
  }

  /** Resolves when it is open, was refused, or closed. */
  static async open(url: string, headers: Record<string, string> = {}): Promise<TestSocket> {
    const client = new TestSocket(url, headers);
    await pollUntil(
      `${url} opens or is refused`,
      () => client.socket.readyState === WebSocket.OPEN || (client.refused ?? client.closed),
      { intervalMs: 2 },
    );
    return client;
  }

  get json(): unknown[] {
    return this.frames.map((frame) => JSON.parse(String(frame)) as unknown);
  }
  get states(): unknown[] {
    return this.json.filter(isState).map((frame) => frame.state);
  }

  /** The first `count` frames, once there are as many. */
  async first(count: number): Promise<Array<string | Buffer>> {
    await this.until(`${count} frames`, () => this.frames.length >= count);
    return this.frames.slice(0, count);
  }

  until(what: string, check: () => boolean): Promise<unknown> {
    return pollUntil(
      what,
      () =>
        check()
          ? { done: true, value: true }
          : { done: false, saw: [...this.frames, this.closed, this.error] },
      { intervalMs: 2 },
    );
  }

  send(message: unknown): void {
    const raw = typeof message === "string" || message instanceof Uint8Array;
    this.socket.send(raw ? message : JSON.stringify(message));
  }

  /** Closes in order and waits for the end. */
  async close(code?: number, reason?: string): Promise<void> {
    this.socket.close(code, reason);
    await this.until("it is closed", () => this.closed !== undefined);
  }
}

const isState = (frame: unknown): frame is { state: unknown } =>
  (frame as { type?: unknown } | null)?.type === "cf_agent_state";

export interface Posted {
  readonly status: number;
  readonly text: string;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
}

export async function read(response: Response): Promise<Posted> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  return {
    status: response.status,
    headers: response.headers,
    bytes,
    text: new TextDecoder().decode(bytes),
  };
}

let deliveries = 0;

/** POSTs a payload signed by GitHub's own library. */
export async function postGithub(
  url: string,
  payload: object | string,
  options: { readonly id?: string; readonly event?: string; readonly secret?: string } = {},
): Promise<Posted> {
  const body = typeof payload === "string" ? payload : JSON.stringify(payload);
  return read(
    await fetch(url, {
      method: "POST",
      body,
      headers: {
        "content-type": "application/json",
        "x-hub-signature-256": await octokitSign(options.secret ?? SECRET, body),
        "x-github-event": options.event ?? "push",
        "x-github-delivery": options.id ?? `delivery-${++deliveries}`,
      },
    }),
  );
}

/** A promise and what settles it: how a test holds an agent's turn. */
export interface Latch {
  readonly opened: Promise<void>;
  readonly open: () => void;
}
export function makeLatch(): Latch {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open };
}
