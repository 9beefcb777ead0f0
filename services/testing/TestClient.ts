/**
 * A client of an agent under test: a WebSocket connection through the gateway, with methods for the
 * protocol's frames. It keeps every frame that it received.
 */
import { splitCallOptions } from "../client/callOptions.ts";
import type { CallOptions, StreamOptions, UntypedCall } from "../client/clientTypes.ts";
import type { Driver } from "./Driver.ts";
import { messageOf } from "../../core/errors/thrown.ts";

type Data = string | Uint8Array;

/** The client's end of the connection. */
interface ClientSocket {
  readonly toServer: (data: Data) => void;
  readonly leave: (code: number, reason: string) => void;
  readonly cut: () => void;
}

/** How a connection was closed. */
export interface Closed {
  readonly code: number;
  readonly reason: string;
}

/** RFC 6455, 7.4.1: normal closure. */
const NORMAL = 1000;

interface RpcFrame {
  readonly type: "rpc";
  readonly id: string;
  readonly success: boolean;
  readonly result?: unknown;
  readonly error?: string;
  readonly done?: boolean;
}

/** A WebSocket client of an agent under test. */
export class TestClient<State = unknown> {
  /** Every frame so far, in order: parsed if it is JSON, bytes if it was binary. */
  readonly frames: unknown[] = [];
  /** Set once either end has closed the connection. */
  closed: Closed | undefined;
  private socket: ClientSocket | undefined;

  constructor(
    private readonly driver: Driver,
    private readonly newId: () => string,
  ) {}

  /** The peer of the socket. Frames may arrive before `opened`. */
  readonly peer = {
    onMessage: (data: Data): void => void this.frames.push(parse(data)),
    onClose: (code: number, reason: string): void => void (this.closed = { code, reason }),
  };

  /** For the installation: the socket that it opened for this client. */
  opened(socket: ClientSocket): void {
    this.socket = socket;
  }

  /** The last state that the agent sent; undefined before the first. */
  get state(): State | undefined {
    const frame = this.ofType("cf_agent_state").at(-1);
    return frame?.["state"] as State | undefined;
  }

  /** The agent that the server names; undefined if the agent's class does not send it. */
  get identity(): { readonly agent: string; readonly name: string } | undefined {
    const frame = this.ofType("cf_agent_identity").at(-1);
    return frame && { agent: String(frame["agent"]), name: String(frame["name"]) };
  }

  /** Frames outside of the protocol: those that the agent's code sent and broadcast. */
  get messages(): ReadonlyArray<unknown> {
    return this.frames.filter((frame) => !isProtocol(frame));
  }

  /** Protocol frames of one type, e.g. `cf_agent_state_error`. */
  ofType(type: string): ReadonlyArray<Readonly<Record<string, unknown>>> {
    return this.frames.filter(isRecord).filter((frame) => frame["type"] === type);
  }

  /**
   * Sends text and bytes as they are, and anything else as JSON. `await test.settled()` waits for
   * the effects. Throws `TypeError` for what JSON can't represent.
   */
  send(data: unknown): void {
    const bytes = bytesOf(data);
    const sent = bytes ?? (typeof data === "string" ? data : JSON.stringify(data));
    if (sent === undefined)
      throw new TypeError(`send: a message can't be of type ${typeof data}: text, bytes or JSON`);
    this.open().toServer(sent);
  }

  /** As a client's `setState`. Resolves when the agent has accepted the state, else rejects. */
  async setState(state: State): Promise<void> {
    const before = this.ofType("cf_agent_state_error").length;
    this.send({ type: "cf_agent_state", state });
    await this.driver.settled();
    const refused = this.ofType("cf_agent_state_error")[before];
    if (refused !== undefined) throw new Error(String(refused["error"]));
  }

  /**
   * Calls a method: `call("method", [args], { stream: { onChunk, onDone, onError } })`. Resolves to
   * its result, or to the last chunk of a method that streams; rejects with the error's text. `key`
   * is as in a client's call; `timeout` is ignored, because time passes as the call needs it.
   */
  readonly call: UntypedCall = (async (
    method: string,
    args: ReadonlyArray<unknown> = [],
    options: CallOptions | StreamOptions = {},
  ): Promise<unknown> => {
    const { stream: callbacks, key } = splitCallOptions(options);
    try {
      const { chunks, result } = await this.stream(method, args, { key });
      for (const chunk of chunks) callbacks?.onChunk?.(chunk);
      callbacks?.onDone?.(result);
      return result;
    } catch (error) {
      callbacks?.onError?.(messageOf(error));
      throw error;
    }
  }) as UntypedCall;

  /** As `call`, for a method that streams: resolves to its chunks and its final result. */
  async stream<A = unknown>(
    method: string,
    args: ReadonlyArray<unknown> = [],
    { key }: Pick<CallOptions, "key"> = {},
  ): Promise<{ readonly chunks: ReadonlyArray<unknown>; readonly result: A }> {
    if (!Array.isArray(args))
      throw new TypeError(`The arguments of ${method} must be an array: call("${method}", [ … ])`);
    const id = this.newId();
    const replies = (): ReadonlyArray<RpcFrame> =>
      this.ofType("rpc").filter((frame) => frame["id"] === id) as unknown as RpcFrame[];
    const last = (): RpcFrame | undefined =>
      replies().find((reply) => !reply.success || reply.done !== false);
    this.send({ type: "rpc", id, method, args, key });
    await this.driver.until(
      `the result of ${method}`,
      () => last() !== undefined || this.closed !== undefined,
    );
    const reply = last();
    if (reply === undefined)
      throw new Error(`${method}: the connection was closed (${this.closed?.code})`);
    if (!reply.success) throw new Error(reply.error);
    const chunks = replies().slice(0, -1).map(({ result }) => result); // prettier-ignore
    return { chunks, result: reply.result as A };
  }

  /** Resolves to the first frame that matches, including frames received earlier. */
  async waitFor(matches: (frame: unknown) => boolean): Promise<unknown> {
    await this.driver.until("a frame that matches", () => this.frames.some(matches));
    return this.frames.find(matches);
  }

  /** Closes the connection. Resolves when the agent has handled the close. */
  async close(code = NORMAL, reason = ""): Promise<void> {
    this.open().leave(code, reason);
    await this.driver.settled();
  }

  /** Breaks the connection without a close frame: the agent sees code 1006. */
  async cut(): Promise<void> {
    this.open().cut();
    await this.driver.settled();
  }

  private open(): ClientSocket {
    if (this.socket === undefined || this.closed !== undefined)
      throw new Error(`the connection is closed (${this.closed?.code ?? "not open yet"})`);
    return this.socket;
  }
}

/** The bytes of a buffer or of a view of one; undefined for anything else. */
function bytesOf(data: unknown): Uint8Array | undefined {
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : undefined;
}

function parse(data: Data): unknown {
  if (typeof data !== "string") return data;
  try {
    return JSON.parse(data) as unknown;
  } catch {
    return data;
  }
}

const isRecord = (frame: unknown): frame is Readonly<Record<string, unknown>> =>
  typeof frame === "object" && frame !== null && !(frame instanceof Uint8Array);

const isProtocol = (frame: unknown): boolean =>
  isRecord(frame) &&
  (frame["type"] === "rpc" || String(frame["type"] ?? "").startsWith("cf_agent_"));
