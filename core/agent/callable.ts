/**
 * `@callable()`: marks a method that clients can call by RPC (`protocol.md` §2.4). Works as a
 * standard decorator and as a legacy (`experimentalDecorators`) one. It marks the function itself,
 * so an override that is not marked again is not callable.
 */

/** What `@callable` records about a method. */
export interface CallableMetadata {
  /** Text for `getCallableMethods`. */
  readonly description?: string;
  /** Whether the method's first parameter is a `StreamingResponse`. Default false. */
  readonly streaming?: boolean;
  /**
   * Whether each call is stored before the method runs, and runs again if its host dies. Such a
   * call is a durable turn that can have steps; calls with the same key are one call. Default
   * false.
   */
  readonly durable?: boolean;
}

const marked = new WeakMap<object, CallableMetadata>();

/**
 * The decorator. Throws `TypeError` when it is not applied to a method, and for a method that is
 * both streaming and durable.
 */
export function callable(metadata: CallableMetadata = {}) {
  if (metadata.durable === true && metadata.streaming === true)
    throw new TypeError(
      "@callable(): a streaming method can't be durable: write the answer with this.stream(key), which survives the loss of a host, in a durable method",
    );
  return function mark(target: unknown, _context?: unknown, descriptor?: PropertyDescriptor): void {
    const method: unknown = descriptor === undefined ? target : descriptor.value;
    if (typeof method !== "function")
      throw new TypeError("@callable() decorates a method of an Agent class");
    marked.set(method, metadata);
  };
}

/** The metadata of a callable method; undefined for any other value. */
export const callableMetadata = (method: unknown): CallableMetadata | undefined =>
  typeof method === "function" ? marked.get(method) : undefined;
