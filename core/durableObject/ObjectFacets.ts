/**
 * `ctx.facets`: objects below an object, each of a class of the module's, with a storage and a
 * journal of its own. A facet is what a sub-agent is (`core/subAgent/SubAgents`): an address below
 * that of its object, on any host. Only its object has a stub of it.
 *
 * 1. A facet is listed in the turn that asks for it, before anything reaches it.
 * 2. `delete` marks it in the turn that deletes it: after a crash it is ended before its next use.
 */
import { ObjectId } from "./objectId.ts";
import type { FacetTable } from "./FacetTable.ts";
import { messageOf } from "../errors/thrown.ts";
import { AgentNamespace } from "../namespace/AgentNamespace.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import { makeStub } from "../namespace/makeStub.ts";
import { isRemoteMethod, refuseJson } from "../namespace/remoteNames.ts";
import { once } from "../retry/once.ts";
import type { SubAgents } from "../subAgent/SubAgents.ts";

/** What the function of `get` returns. */
export interface FacetStart {
  /** `ctx.exports.Name`, or the class itself. */
  readonly class: unknown;
  /** The facet's `ctx.id`. Default: that of its object. */
  readonly id?: unknown;
}

interface FacetParts {
  readonly id: ObjectId;
  readonly env: Readonly<Record<string, unknown>>;
  readonly table: FacetTable;
  readonly subAgents: Pick<SubAgents, "add" | "abort" | "delete">;
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

export class ObjectFacets {
  readonly #parts: FacetParts;
  /** Ends of facets that are under way, by class and name. */
  readonly #ending = new Map<string, Promise<void>>();

  constructor(parts: FacetParts) {
    this.#parts = parts;
  }

  /**
   * The facet of this name. `start` says what it is, and is asked with the stub's first call, and
   * again after it has failed. Its name is one within its class.
   */
  get(name: string, start: () => FacetStart | Promise<FacetStart>): AgentStub {
    const stub = once(() => this.#start(name, start));
    return new Proxy(new Facet() as AgentStub, {
      get: (_target, key) => {
        if (key === "toJSON") return refuseJson(`the facet ${name}`);
        if (!isRemoteMethod(key)) return undefined;
        return async (...args: unknown[]) => {
          const started = (await stub.get()) as unknown as Record<string, (...given: unknown[]) => unknown>; // prettier-ignore
          return started[key]!(...args);
        };
      },
    });
  }

  /** Discards it in memory, with all that it has not stored. */
  abort(name: string, reason: unknown): void {
    for (const facet of this.#named(name))
      this.#parts.subAgents.abort(facet.className, facet.name, messageOf(reason));
  }

  /** Ends it, and all that it has stored. Does nothing where there is none (rule 2). */
  delete(name: string): void {
    for (const { className, name: own } of this.#named(name)) {
      this.#parts.table.markDeleted(className, own);
      this.#parts.waitUntil(this.#end(className, own));
    }
  }

  async #start(name: string, start: () => FacetStart | Promise<FacetStart>): Promise<AgentStub> {
    const { env, subAgents, table, id: own } = this.#parts;
    const given = await start();
    const className = classNameOf(given?.class);
    const facetId = given.id ?? own;
    const address = ObjectId.addressOf(facetId);
    if (address === undefined)
      throw new TypeError(
        `facets.get("${name}"): id must be the result of a binding's idFromName() or newUniqueId(), or be left out`,
      );
    const facet = nameWithin(className, name);
    if (table.isDeleted(className, facet)) await this.#end(className, facet);
    const target = subAgents.add(className, facet);
    return makeStub(AgentNamespace.callsOf(env[className] as AgentNamespace), target, {
      objectId: facetId as { readonly name?: string },
      props: { facet: [address.class, address.name] },
    });
  }

  /** Once at a time: two ends of one facet would meet a third that was begun in between. */
  #end(className: string, name: string): Promise<void> {
    const key = `${className}/${name}`;
    const ending =
      this.#ending.get(key) ??
      this.#parts.subAgents.delete(className, name).finally(() => this.#ending.delete(key));
    this.#ending.set(key, ending);
    return ending;
  }

  #named(name: string): ReadonlyArray<{ readonly className: string; readonly name: string }> {
    return this.#parts.table.facets
      .list()
      .filter(({ className, name: own }) => nameWithin(className, name) === own);
  }
}

/** No plain object: a stub that is passed in a call is refused, and not copied. */
class Facet {}

/**
 * The reference's own package begins the names of facets with their class and a null character,
 * which no address may have. Within its class the rest is as good.
 */
function nameWithin(className: string, name: string): string {
  const prefix = `${className}\0`;
  return name.startsWith(prefix) ? name.slice(prefix.length) : name;
}

function classNameOf(given: unknown): string {
  if (given instanceof AgentNamespace) return given.className;
  if (typeof given === "function" && given.name !== "") return given.name;
  throw new TypeError(
    "facets.get(): class must be a class that the module exports: ctx.exports.<Name>, or the class itself",
  );
}
