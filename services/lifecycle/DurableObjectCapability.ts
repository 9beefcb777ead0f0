/**
 * A part that a Durable Object is composed of, beside its own hooks. `Lifecycle` calls each hook of
 * the parts in the order in which they were added, before the object's own. A part receives what
 * it works on, as storage, in its constructor.
 */
export interface DurableObjectCapability<Props extends object = object> {
  /** Before the first event, each time the object comes to memory. */
  onStart?(context: CapabilityStartContext<Props>): void | Promise<void>;
  /** For each HTTP request. A response ends it: later parts and the object do not see it. */
  onRequest?(
    context: CapabilityRequestContext,
  ): Response | undefined | void | Promise<Response | undefined | void>;
  /** For each alarm of the object. */
  onAlarm?(): void | Promise<void>;
}

/** What `onStart` of a part receives. */
export interface CapabilityStartContext<Props extends object = object> {
  /** What `start(props)` was called with; undefined without. */
  readonly props: Props | undefined;
}

/** What `onRequest` of a part receives. */
export interface CapabilityRequestContext {
  /** Whose body a part that passes it on does not read. */
  readonly request: Request;
}
