/**
 * `testAgents(…)`: an installation for one test, in this process, in memory and in virtual time.
 * Requests, signed webhooks and connections pass through the gateway's own code, and agents run on
 * a host as in production. Time moves when the test moves it (`advance`) or waits for an answer.
 *
 * One seed and one order of steps produce one run, including agents' ids, times and journals.
 */
import { BODILESS } from "../../core/namespace/stubFetch.ts";
import type { CallClientSource } from "../../core/namespace/stubTarget.ts";
import { buildAgentPath } from "../../core/namespace/subAgentPaths.ts";
import type { BodyReader, HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import type { LogFields, LogShape } from "../../core/telemetry/Log.ts";
import { inputAgain } from "../../core/dead/redrive.ts";
import type { RecordedTurn } from "../../core/step/RecordedSteps.ts";
import { durationMs, type Duration } from "../../core/time/durationMs.ts";
import { checkOptions } from "../../core/errors/checkOptions.ts";
import { shownValue } from "../../core/errors/shownValue.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { AgentConstructor, LoadedModule } from "../module/LoadedModule.ts";
import { sign, type Sign } from "../webhooks/sign.ts";
import { readDeadLetter, type TestDeadLetter } from "./deadLetters.ts";
import { answerOf, messageOf, type EmailAnswer, type TestEmail } from "./TestEmail.ts";
import { drive } from "./drive.ts";
import { REAL_WORK_GRACE_MS, type Driver } from "./Driver.ts";
import { joinPlatform } from "./joinPlatform.ts";
import {
  CRASH_POINTS,
  joinMemory,
  type CrashPoint,
  type MemoryInstallation,
} from "./joinMemory.ts";
import { makeTestAgent, type StateOf, type TestAgent } from "./TestAgent.ts";
import {
  checkHandler,
  classNameOf,
  readTestOptions,
  type TestAgentsOptions,
} from "./TestAgentsOptions.ts";
import { TestClient } from "./TestClient.ts";
import { TestOutgoing, type OutgoingHandler, type Sent } from "./TestOutgoing.ts";

/** A line of the log. */
export interface LogLine {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly fields: LogFields | undefined;
}

/** Options of `connect`. */
export interface ConnectOptions {
  /** The connection's id. Default: a generated one. */
  readonly id?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: HeadersInit;
}

const CONNECT_OPTIONS: ReadonlySet<string> = new Set<keyof ConnectOptions>(["id", "query", "headers"]); // prettier-ignore

/** The time after which a lost host's leases expire in production. */
const TAKE_OVER_MS = 5_000;

/** Starts an installation. Rejects for invalid classes or routes, as the command line does. */
export async function testAgents(options: TestAgentsOptions): Promise<TestAgents> {
  const { module, url, outgoing: handler, ...given } = readTestOptions(options);
  const logs: LogLine[] = [];
  const log = collecting(logs);
  let outgoing: TestOutgoing | undefined;
  const recorded = new Map<string, RecordedTurn>();
  const installation = await joinMemory({
    ...given,
    recorded: { of: ({ id }) => recorded.get(id!) },
    answersQueries: true,
    module,
    publicUrl: url,
    log,
    outgoing: ({ nowMs }) => (outgoing = new TestOutgoing(nowMs, handler)),
  });
  const leave = joinPlatform(module, installation.env, log);
  return new TestAgents({ installation, module, outgoing: outgoing!, recorded, logs, url, leave });
}

interface TestAgentsParts {
  readonly installation: MemoryInstallation;
  readonly module: LoadedModule;
  readonly outgoing: TestOutgoing;
  readonly recorded: Map<string, RecordedTurn>;
  readonly logs: LogLine[];
  readonly url: string;
  /** Unbinds the installation from `cloudflare:workers`. */
  readonly leave: () => void;
}

/** A whole installation in the test's own process, in virtual time. Created by `testAgents`. */
export class TestAgents {
  /** The lines that the gateway and the host logged. */
  readonly logs: ReadonlyArray<LogLine>;
  /**
   * The gateway's environment, as `fetch` handlers receive it: settings, and a binding for each
   * class.
   */
  readonly env: Readonly<Record<string, unknown>>;
  /** `sign` of `agents/webhooks`, at the test's time and with ids from its seed. */
  readonly sign: typeof sign;
  private readonly driver: Driver;
  private readonly calls: CallClientSource;
  private readonly end: () => Promise<void>;

  constructor(private readonly parts: TestAgentsParts) {
    const { installation, outgoing, logs } = parts;
    const { time } = installation;
    this.logs = logs;
    this.env = installation.env;
    this.sign = signAt(time);
    const { driver, close } = drive(installation, outgoing);
    this.driver = driver;
    this.end = close;
    this.calls = () => installation.calls;
  }

  /** Throws `TypeError` for a class that the test does not have, and for what is no name. */
  private idOf(agent: AgentConstructor, name: string): AgentId {
    return agentId(classNameOf(this.parts.module, agent), name);
  }

  // Time

  /** The current virtual time. */
  get now(): Date {
    return new Date(this.parts.installation.time.nowMs());
  }

  /**
   * Moves virtual time and runs everything that becomes due: `advance("3 days")`. Rejects with
   * `TypeError` for an invalid duration.
   */
  async advance(duration: Duration): Promise<void> {
    return this.driver.advance(durationMs(duration, "advance: the duration"));
  }

  /** Resolves when all open work is done: messages, webhooks, queue items, with their retries. */
  settled(): Promise<void> {
    return this.driver.settled();
  }

  // In

  /**
   * Delivers a webhook: `await test.webhook("/webhooks/github", body, test.sign.github(body,
   * secret))`. Text, bytes and `URLSearchParams` are sent as they are, any other object as JSON,
   * which is also the text to sign. Resolves to the response that the provider receives.
   */
  webhook(
    path: string,
    body: string | Uint8Array | object,
    headers: HeadersInit = {},
  ): Promise<Response> {
    const isForm = body instanceof URLSearchParams;
    const isBytes = body instanceof ArrayBuffer || ArrayBuffer.isView(body);
    const raw = typeof body === "string" || isForm || isBytes;
    const all = new Headers(headers);
    if (!isForm && !all.has("content-type")) all.set("content-type", "application/json");
    const sent = raw ? (body as BodyInit) : JSON.stringify(body);
    return this.fetch(path, { method: "POST", headers: all, body: sent });
  }

  /** Sends a request to the gateway. A path is relative to the gateway's URL. */
  async fetch(input: Request | string | URL, init?: RequestInit): Promise<Response> {
    const { installation, url } = this.parts;
    const request = new Request(input instanceof Request ? input : new URL(input, url), init);
    const body = new Uint8Array(await request.arrayBuffer());
    const what = `the answer to ${request.method} ${request.url}`;
    const http = requestOf(request.method, request.url, request.headers);
    const answer = await this.driver.settle(what, installation.request(http, body));
    const { rest } = answer;
    if (rest === undefined) return toResponse(answer);
    const read = (): ReturnType<BodyReader["read"]> => this.driver.settle(what, rest.read());
    return toResponse(answer, { read, cancel: (reason) => rest.cancel(reason) });
  }

  /**
   * Delivers a mail to the module's `email`: `await test.email({ from, to, subject, text })`, or
   * `raw`. Resolves to the SMTP reply. Agents' answers are in `sends()` after `settled()`.
   */
  async email(given: TestEmail): Promise<EmailAnswer> {
    const { installation } = this.parts;
    const message = messageOf(given, installation.time);
    const what = `the answer to the mail for ${message.to.join(", ")}`;
    return answerOf(await this.driver.settle(what, installation.mail(message), REAL_WORK_GRACE_MS));
  }

  /**
   * Connects a client to an agent. Resolves after the agent's first frames; rejects if refused, and
   * for a name that no URL can carry as it is (`"a b"`), since a client would reach another agent.
   */
  async connect<A extends AgentConstructor>(
    agent: A,
    name: string,
    options: ConnectOptions = {},
  ): Promise<TestClient<StateOf<InstanceType<A>>>> {
    const { installation, url } = this.parts;
    const { time } = installation;
    checkOptions("connect", options, CONNECT_OPTIONS);
    const path = buildAgentPath([{ className: this.idOf(agent, name).class, name }]);
    const target = new URL(path, url);
    target.searchParams.set("_pk", options.id ?? time.id());
    for (const [key, value] of Object.entries(options.query ?? {}))
      target.searchParams.set(key, value);
    const headers = new Headers(options.headers);
    headers.set("upgrade", "websocket");
    headers.set("connection", "Upgrade");
    const client = new TestClient<StateOf<InstanceType<A>>>(this.driver, time.id);
    const http = requestOf("GET", target.href, headers);
    const opening = installation.connect(http, client.peer);
    const opened = await this.driver.settle(`the connection to ${path}`, opening);
    if (opened._tag === "Refused") {
      const response = toResponse(opened.response);
      throw new Error(`${path} refused to connect: ${response.status} ${await response.text()}`);
    }
    client.opened(opened.socket);
    await this.driver.quiet();
    return client;
  }

  // Looking

  /** A handle on an agent: its stub, and readers of its data. The first input creates it. */
  agent<A extends AgentConstructor>(agent: A, name: string): TestAgent<InstanceType<A>> {
    const { installation } = this.parts;
    const { broker, databases } = installation;
    const id = this.idOf(agent, name);
    return makeTestAgent<InstanceType<A>>({
      id,
      driver: this.driver,
      calls: this.calls,
      sources: { journal: installation.journal, snapshots: installation.snapshots, databases },
      sends: () => this.sends(),
      recorded: this.parts.recorded,
      publish: ({ head, body }) => broker.inbox.publish(id, encodeEnvelope(head, body)),
      deadLetters: () => this.deadLetters(),
      isActive: () =>
        installation.agents().some((active) => addressKey(active.id) === addressKey(id)),
    });
  }

  /** All requests and mail that agents sent, oldest first. */
  sends(): ReadonlyArray<Sent> {
    return [...this.parts.outgoing.sent];
  }

  /** The dead letters of all agents, oldest first. */
  async deadLetters(): Promise<ReadonlyArray<TestDeadLetter>> {
    await this.driver.quiet();
    return this.parts.installation.broker.deadLetters.all().map(readDeadLetter);
  }

  /** Replaces the handler that answers what agents send. */
  answerOutgoing(handler: OutgoingHandler): void {
    checkHandler("answerOutgoing: the handler", handler);
    this.parts.outgoing.handler = handler;
  }

  /**
   * Runs the input of a dead letter again with new attempts, as `agents dead redrive` does.
   * Resolves when it is done; rejects if there is no such dead letter.
   */
  async redrive(letter: Pick<TestDeadLetter, "id">): Promise<void> {
    const { broker } = this.parts.installation;
    const seq = letter.id as Sequence;
    const stored = broker.deadLetters.get(seq);
    if (stored === undefined)
      throw new Error(`there is no dead letter ${letter.id}: it was already redriven or dropped`);
    broker.inbox.publish(stored.id, inputAgain(stored));
    broker.deadLetters.remove(seq);
    await this.settled();
  }

  // Faults

  /**
   * Crashes the host at once, whatever its agents are doing. Its memory is lost, and stored data
   * stays. Until `revive`, webhooks are stored and clients wait.
   */
  async crash(): Promise<void> {
    await this.driver.quiet();
    this.parts.installation.crash();
  }

  /**
   * Crashes the host at the next commit of one agent, or of any: before the event is stored, or
   * after it is stored and before its outputs are sent. Resolves when that has happened. Rejects
   * with `TypeError` for another point, and for a class without a name.
   */
  async crashAt(point: CrashPoint, agent?: AgentConstructor, name?: string): Promise<void> {
    if (!CRASH_POINTS.includes(point))
      throw new TypeError(
        `crashAt: the point is ${shownValue(point)}: use ${CRASH_POINTS.map((each) => `"${each}"`).join(" or ")}`,
      );
    const key = agent === undefined ? undefined : addressKey(this.idOf(agent, name!));
    return this.parts.installation.crashAt(point, key);
  }

  /** Starts another host after the time in which leases expire. Rejects while a host runs. */
  async revive(): Promise<void> {
    const { installation } = this.parts;
    if (installation.alive) throw new Error("a host is running: nothing has crashed");
    await this.driver.advance(TAKE_OVER_MS);
    await this.driver.exclusive(() => installation.revive());
  }

  /** Ends the installation. Pending waits do not settle. Also called by `await using`. */
  close(): Promise<void> {
    return this.end().finally(this.parts.leave);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function collecting(lines: LogLine[]): LogShape {
  const at = (level: LogLine["level"]) => (message: string, fields?: LogFields) =>
    void lines.push({ level, message, fields });
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
}

function requestOf(method: string, href: string, given: Headers): HttpRequest {
  const url = new URL(href);
  const headers: Record<string, ReadonlyArray<string>> = Object.create(null);
  headers["host"] = [url.host];
  for (const [name, value] of given) headers[name] = [value];
  return {
    method,
    target: url.pathname + url.search,
    headers,
    remoteAddress: "127.0.0.1",
    secure: url.protocol === "https:",
  };
}

function toResponse({ status, headers, body }: HttpResponse, rest?: BodyReader): Response {
  const whole = BODILESS.has(status) ? null : (body as string | Uint8Array<ArrayBuffer>);
  const content = rest === undefined ? whole : streamOf(body, rest);
  return new Response(content, {
    status,
    headers: headers.map(([name, value]): [string, string] => [name, value]),
  });
}

const streamOf = (begin: string | Uint8Array, rest: BodyReader): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start: (controller) =>
      controller.enqueue(typeof begin === "string" ? new TextEncoder().encode(begin) : begin),
    pull: async (controller) => {
      const { done, value } = await rest.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: (reason) => rest.cancel(reason),
  });

/** Signs at the test's time, because providers' signatures contain the time. */
function signAt(time: { readonly nowMs: () => number; readonly id: () => string }): typeof sign {
  const at =
    (signer: Sign): Sign =>
    (body, secret, options) =>
      signer(body, secret, { nowMs: time.nowMs(), id: time.id(), ...options });
  const signers = Object.entries(sign).map(([name, signer]) => [name, at(signer as Sign)]);
  return Object.fromEntries(signers) as typeof sign;
}
