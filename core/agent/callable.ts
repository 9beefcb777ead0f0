/**
 * `@callable()`: marks a method that clients can call by RPC (`protocol.md` §2.4). Works as a
 * standard decorator and as a legacy (`experimentalDecorators`) one. It marks the function itself,
 * so an override that is not marked again is not callable.
 */

/** What `@callable` records of a method. */
export interface CallableMetadata {
  /** Text for `getCallableMethods`. */
  readonly description?: string;
  /** Whether the method's first parameter is a `StreamingResponse`. Default false. */
  readonly streaming?: boolean;
}

const marked = new WeakMap<object, CallableMetadata>();

/** The decorator. Throws `TypeError` where it does not stand before a method. */
export function callable(metadata: CallableMetadata = {}) {
  return function mark(target: unknown, _context?: unknown, descriptor?: PropertyDescriptor): void {
    const method: unknown = descriptor === undefined ? target : descriptor.value;
    if (typeof method !== "function")
      throw new TypeError("@callable() goes before a method of an Agent class");
    marked.set(method, metadata);
  };
}

/** The metadata of a callable method; undefined for any other value. */
export const callableMetadata = (method: unknown): CallableMetadata | undefined =>
  typeof method === "function" ? marked.get(method) : undefined;
