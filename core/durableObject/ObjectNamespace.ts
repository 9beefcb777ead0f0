/**
 * `env.COUNTER`: the binding of a class of Durable Objects, and its stubs. An agent's binding in
 * all but two things: ids are `ObjectId`s, and arguments and results may be all that the structured
 * clone algorithm copies.
 */
import { toBase64Url } from "../../schemas/base64.ts";
import { AgentNamespace, type StubOptions } from "../namespace/AgentNamespace.ts";
import { makeStub } from "../namespace/makeStub.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import type { AgentInstanceId } from "../namespace/instanceId.ts";
import { namedObjectId, ObjectId, parseObjectId, uniqueObjectId } from "./objectId.ts";

/** Random bytes of an id without a name: as many as a UUID has. */
const UNIQUE_BYTES = 16;

export class ObjectNamespace<A = unknown> extends AgentNamespace<A> {
  /**
   * The id of the object with this name. Throws `InvalidAddress` as an agent's binding does, but a
   * name may begin with `/`.
   */
  override idFromName(name: string): AgentInstanceId {
    return shown(namedObjectId(this.className, name));
  }

  /** The id of a new object without a name. */
  newUniqueId(): AgentInstanceId {
    const bytes = crypto.getRandomValues(new Uint8Array(UNIQUE_BYTES));
    return shown(uniqueObjectId(this.className, toBase64Url(bytes)));
  }

  /** The id with this text. Throws `TypeError` for a text that is not an id of this class. */
  idFromString(text: string): AgentInstanceId {
    return shown(parseObjectId(this.className, text));
  }

  /** A stub for the object with this id. Does not start the object. Throws `TypeError`. */
  override get(id: AgentInstanceId, options: StubOptions = {}): AgentStub<A> {
    const address = ObjectId.addressOf(id);
    if (address?.class !== this.className)
      throw new TypeError(`get() of ${this.className} takes an id from idFromName(), idFromString() or newUniqueId() of this binding`); // prettier-ignore
    return makeStub<A>(AgentNamespace.callsOf(this), address, { ...options, objectId: id });
  }

  /** The binding itself: there is one jurisdiction, yours. */
  jurisdiction(_jurisdiction: string): this {
    return this;
  }
}

/** An id as the binding of an agent has it; the name of one without is undefined. */
const shown = (id: ObjectId): AgentInstanceId => id as unknown as AgentInstanceId;
