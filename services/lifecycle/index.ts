/**
 * The package's entry `agents/lifecycle`: hooks as an agent has them, and reusable parts, for a
 * class that extends `DurableObject`.
 */
export { Lifecycle, type LifecycleHost } from "./Lifecycle.ts";
export type {
  CapabilityRequestContext,
  CapabilityStartContext,
  DurableObjectCapability,
} from "./DurableObjectCapability.ts";
export type {
  Connection,
  ConnectionContext,
  ConnectionSetStateFn,
  ConnectionState,
  WSMessage,
} from "./ManagedConnection.ts";
