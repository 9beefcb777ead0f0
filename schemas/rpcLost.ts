/**
 * The method by which a client asks which of its calls are lost, beyond the reference: `args` are
 * ids of calls of this socket, and the result those that its agent will not answer, because the
 * host that ran them is gone. It is no name of a method, so that a server without it answers that
 * it does not exist.
 */
export const RPC_LOST = "rpc:lost";

/** What such a call rejects with, by the client or by the agent's next owner. */
export const CALL_LOST = "The call was lost with its agent's host; the method may have run";
