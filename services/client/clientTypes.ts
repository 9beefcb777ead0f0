/**
 * Types derived from an agent's class: its state, its methods, their arguments and results. They
 * are structural, so that a page that imports its agent's type loads nothing of the server. Types
 * can't tell which methods are `@callable()`, so all methods are included except those of the base
 * class.
 */
import type { AgentMember } from "../../schemas/AgentMember.ts";

/** An agent's instance type, from that type itself or from its class (`typeof RepoAgent`). */
type AgentOf<T> = T extends abstract new (...args: never[]) => infer Instance ? Instance : T;

/** The state of an agent. Any other type is the state itself: `AgentClient<State>`. */
export type StateOf<T> =
  AgentOf<T> extends { readonly state: infer State; setState(state: never): void }
    ? State
    : AgentOf<T>;

type IsAny<T> = 0 extends 1 & T ? true : false;
type AnyMethod = (...args: never[]) => unknown;

/** Members that are never RPC: those of `Agent`, of any class, and of the reference's `Agent`. */
export type BaseMember =
  AgentMember | "alarm" | "constructor" | "lifecycle" | "scheduler" | "taskDefinitions" | "tasks";

/** The methods that a client of this agent can call. */
export type AgentMethods<T> = {
  [
    K in Exclude<keyof AgentOf<T> & string, BaseMember> as AgentOf<T>[K] extends AnyMethod
      ? K
      : never
  ]: AgentOf<T>[K];
};

/** The shape of `StreamingResponse`, a streaming method's first parameter. */
interface StreamShape<Chunk, Final> {
  send(chunk: Chunk): boolean;
  end(final?: Final): boolean;
  readonly isClosed: boolean;
}

type StreamOf<F> = F extends (...args: infer A) => unknown
  ? IsAny<A[0]> extends true
    ? never
    : A extends [infer First extends StreamShape<never, never>, ...unknown[]]
      ? First
      : never
  : never;
type ChunkOf<F> = StreamOf<F> extends { send(chunk: infer Chunk): boolean } ? Chunk : unknown;
type FinalOf<F> = StreamOf<F> extends { end(final?: infer Final): boolean } ? Final : unknown;
type IsStreaming<F> = [StreamOf<F>] extends [never] ? false : true;

/** The arguments that a client passes: those of the method, without a `StreamingResponse`. */
export type ClientParameters<F> = F extends (...args: infer A) => unknown
  ? IsStreaming<F> extends true
    ? A extends [unknown, ...infer Rest]
      ? Rest
      : A
    : A
  : never;

/** The result of a call: that of the method, or a stream's final chunk. */
export type CallResult<F> =
  IsStreaming<F> extends true
    ? FinalOf<F> | undefined
    : F extends (...args: never[]) => infer R
      ? Awaited<R>
      : never;

/** Callbacks of a streaming call. */
export interface StreamOptions<Chunk = unknown, Final = unknown> {
  /** Called with each chunk before the end. */
  readonly onChunk?: ((chunk: Chunk) => void) | undefined;
  /** Called with the final chunk, or undefined if the method ended the stream without one. */
  readonly onDone?: ((finalChunk: Final | undefined) => void) | undefined;
  /** Called with the error's message if the call rejects. */
  readonly onError?: ((error: string) => void) | undefined;
}

/** Options of `follow`. */
export interface FollowOptions<Chunk = unknown, Final = unknown> extends Omit<
  StreamOptions<Chunk, Final>,
  "onChunk"
> {
  /** A place from `onChunk` to continue after. Default: starts at the first chunk. */
  readonly since?: string | undefined;
  /** Called once with each chunk, in order. Another page can continue after `place`. */
  readonly onChunk?: ((chunk: Chunk, place: string) => void) | undefined;
  /** Called if the agent has begun another stream under the key: earlier chunks are not of it. */
  readonly onRestart?: (() => void) | undefined;
  /** Stops reading: the promise rejects with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of a call. */
export interface CallOptions<Chunk = unknown, Final = unknown> {
  /** Milliseconds to wait; 0: no limit. Default: `defaultCallTimeout`; no limit with `stream`. */
  readonly timeout?: number | undefined;
  /** Callbacks for a streaming method. Default: only the final chunk is delivered. */
  readonly stream?: StreamOptions<Chunk, Final> | undefined;
  /**
   * The key of a call to a durable method (`@callable({ durable: true })`): text of 1 to 255
   * characters. Calls with the same key are one call: it is applied once, and all have the same
   * result. A call with a key survives lost connections, and is repeated until it is answered.
   * Default: none.
   */
  readonly key?: string | undefined;
  /**
   * Cancels the call: it rejects with the signal's reason, and the call's signal in the agent
   * (`getCurrentAgent().signal`) aborts. What the method has written stays.
   */
  readonly signal?: AbortSignal | undefined;
}

type OptionsOf<F> = CallOptions<ChunkOf<F>, FinalOf<F>> | StreamOptions<ChunkOf<F>, FinalOf<F>>;

type CallRest<F> =
  [] extends ClientParameters<F>
    ? [args?: ClientParameters<F> | undefined, options?: OptionsOf<F>]
    : [args: ClientParameters<F>, options?: OptionsOf<F>];

type TypedCall<T> = <K extends keyof AgentMethods<T>>(
  method: K,
  ...rest: CallRest<AgentMethods<T>[K]>
) => Promise<CallResult<AgentMethods<T>[K]>>;

/** `call` without types: any method, any arguments. */
export type UntypedCall = <Result = unknown>(
  method: string,
  args?: ReadonlyArray<unknown>,
  options?: CallOptions | StreamOptions,
) => Promise<Result>;

/** `stub` without types: any method. As in the reference, results need no cast. */
export type UntypedStub = Record<
  string,
  // oxlint-disable-next-line typescript/no-explicit-any -- a type that needs no cast
  <Result = any>(...args: unknown[]) => Promise<Result>
>;

type IsUntyped<T> =
  IsAny<T> extends true ? true : [keyof AgentMethods<T>] extends [never] ? true : false;

/** `call` with the agent's methods; untyped for a type that is not an agent. */
export type AgentCall<T> = IsUntyped<T> extends true ? UntypedCall : TypedCall<T>;

/** The agent's methods, with promises of their results; untyped for a type that is not an agent. */
export type AgentStub<T> =
  IsUntyped<T> extends true
    ? UntypedStub
    : {
        readonly [K in keyof AgentMethods<T>]: (
          ...args: ClientParameters<AgentMethods<T>[K]>
        ) => Promise<CallResult<AgentMethods<T>[K]>>;
      };
