/**
 * `@callable()`: marks a method that clients may call by RPC (`protocol.md` §2.4). Works as a
 * standard decorator and as a legacy (`experimentalDecorators`) one. What is marked is the function
 * itself, so an override that is not marked again is not callable.
 */
export interface CallableMetadata {
  readonly description?: string;
  /** The method's first parameter is a `StreamingResponse`. */
  readonly streaming?: boolean;
}

const marked = new WeakMap<object, CallableMetadata>();

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
