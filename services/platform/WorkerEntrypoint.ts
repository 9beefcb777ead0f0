/**
 * Classes that answer requests without a state: the default export of a module, or a named one that
 * the module's own code reaches by `exports`. An instance is made for each request and each call.
 */

/** Static mark, by which `readModule` recognises the classes of every copy of the package. */
const ENTRYPOINT_MARK: unique symbol = Symbol.for("agents.WorkerEntrypoint") as never;

/** What an entrypoint is constructed with. */
export interface EntrypointContext<Props = unknown> {
  /** A rejection is logged, not thrown. */
  waitUntil(promise: Promise<unknown>): void;
  /** Does nothing: there is no origin to pass through to. */
  passThroughOnException(): void;
  /** What `exports.<Class>({ props })` was given; an empty object otherwise. */
  readonly props: Props;
}

/** `Env` is the type of the bindings, `Props` that of `ctx.props`. */
export abstract class WorkerEntrypoint<Env = Record<string, unknown>, Props = unknown> {
  static readonly [ENTRYPOINT_MARK] = true;
  protected readonly ctx: EntrypointContext<Props>;
  protected readonly env: Env;

  constructor(ctx: EntrypointContext<Props>, env: Env) {
    this.ctx = ctx;
    this.env = env;
  }
}

export type EntrypointClass = new (ctx: EntrypointContext, env: object) => object;

/** A subclass of `WorkerEntrypoint`. */
export const isEntrypointClass = (value: unknown): value is EntrypointClass =>
  typeof value === "function" &&
  (value as { readonly [ENTRYPOINT_MARK]?: unknown })[ENTRYPOINT_MARK] === true &&
  !Object.hasOwn(value, ENTRYPOINT_MARK);
