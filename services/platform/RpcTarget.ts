/**
 * The base class of objects that the reference's platform passes by reference. Here arguments and
 * results of calls between agents are JSON, so an instance that is passed is refused by name.
 */

/** Extend it for objects that are used in one agent. Passing one to another agent throws. */
export abstract class RpcTarget {
  /** Throws: calls pass values, not references. */
  toJSON(): never {
    throw new TypeError(
      `${this.constructor.name} is an RpcTarget, which a call to another agent can't pass. Pass data, and let the callee call back by this agent's class and name (getAgentByName), or follow a durable stream (this.stream)`,
    );
  }
}
