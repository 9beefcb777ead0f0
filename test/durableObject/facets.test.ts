/** `ctx.facets` of Durable Objects: objects below an object, in memory and in virtual time. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { DurableObject } from "cloudflare:workers";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import type { FacetStart } from "../../core/durableObject/ObjectFacets.ts";

type Methods = Record<string, (...args: unknown[]) => Promise<unknown>>;
interface Env {
  readonly House: ObjectNamespace<House>;
}

/** Counts in its storage and in memory, and has facets of its own. */
class Tenant extends DurableObject<Env> {
  #inMemory = 0;

  async count(): Promise<number[]> {
    const stored = ((await this.ctx.storage.get<number>("n")) ?? 0) + 1;
    await this.ctx.storage.put("n", stored);
    return [stored, ++this.#inMemory];
  }
  about() {
    const { id } = this.ctx;
    return [id.name, id.toString()];
  }
  async later(): Promise<void> {
    await this.ctx.storage.setAlarm(Date.now() + 60_000);
  }
  async alarm(): Promise<void> {
    await this.ctx.storage.put("woken as", this.ctx.id.name);
  }
  wokenAs() {
    return this.ctx.storage.get("woken as");
  }
  below(): Promise<unknown> {
    const stub = this.ctx.facets.get("below", () => ({ class: this.ctx.exports["Tenant"] }));
    return (stub as unknown as Methods)["count"]!();
  }
  fetch(request: Request): Response {
    return new Response(`${new URL(request.url).pathname} of ${this.ctx.id.name}`);
  }
}

class House extends DurableObject<Env> {
  #facet(name: string, start?: () => FacetStart | Promise<FacetStart>): Methods {
    const usual = (): FacetStart => ({ class: this.ctx.exports["Tenant"] });
    return this.ctx.facets.get(name, start ?? usual) as unknown as Methods;
  }
  ask(name: string, method: string): Promise<unknown> {
    return this.#facet(name)[method]!();
  }
  askAs(name: string, method: string, id: string): Promise<unknown> {
    const start = async () => ({ class: Tenant, id: this.env.House.idFromName(id) });
    return this.#facet(name, start)[method]!();
  }
  askWrong(start: Partial<FacetStart>): Promise<unknown> {
    return this.#facet("wrong", () => start as FacetStart)["count"]!();
  }
  /** A stub that is kept: `start` fails the first time. */
  async askAgain(): Promise<unknown> {
    let asked = 0;
    const stub = this.#facet("again", () => {
      if (++asked === 1) throw new Error("passing");
      return { class: Tenant };
    });
    const calls = [];
    for (let i = 0; i < 3; i++) calls.push(await stub["count"]!().catch(String));
    return [...calls, asked];
  }
  async fetch(request: Request): Promise<Response> {
    return this.#facet("web")["fetch"]!(request) as Promise<Response>;
  }
  drop(name: string): void {
    this.ctx.facets.delete(name);
  }
  async dropAndAsk(name: string): Promise<unknown> {
    this.ctx.facets.delete(name);
    return this.#facet(name)["count"]!();
  }
  abort(name: string): void {
    this.ctx.facets.abort(name, new Error("enough"));
  }
  exported(): string[] {
    return Object.keys(this.ctx.exports);
  }
  async keys(): Promise<unknown[]> {
    return [...(await this.ctx.storage.list()).keys()];
  }
}

let rig: TestAgents;
beforeEach(async () => {
  rig = await testAgents({ module: { House, Tenant, default: { fetch: () => new Response() } } });
});
afterEach(() => rig.close());

const house = () => (rig.env as unknown as Env).House.getByName("h") as unknown as Methods;
const count = (name: string) => house()["ask"]!(name, "count");

describe("a facet", () => {
  test("has its own storage, apart from its object's and other facets', on any host", async () => {
    expect([await count("a"), await count("a"), await count("b")]).toEqual([[1, 1], [2, 2], [1, 1]]); // prettier-ignore
    expect(await house()["keys"]!()).toEqual([]);
    await rig.crash();
    await rig.revive();
    expect(await count("a")).toEqual([3, 1]);
  });

  test("answers fetch, and has facets of its own", async () => {
    const fetched = house()["fetch"]!(new Request("http://x/path")) as Promise<Response>;
    expect(await (await fetched).text()).toBe("/path of h");
    expect(await house()["ask"]!("a", "below")).toEqual([1, 1]);
    expect(await house()["ask"]!("a", "below")).toEqual([2, 2]);
  });

  test("has its object's id or the given one, also when it wakes by itself", async () => {
    const id = (rig.env as unknown as Env).House.idFromName("h");
    expect(await house()["ask"]!("a", "about")).toEqual(["h", id.toString()]);
    expect(((await house()["askAs"]!("c", "about", "other")) as string[])[0]).toBe("other");
    await house()["askAs"]!("c", "later", "other");
    await rig.crash();
    await rig.revive();
    await rig.advance("2 minutes");
    expect(await house()["askAs"]!("c", "wokenAs", "other")).toBe("other");
  });

  test("is asked what it is again after that failed, and once after it succeeded", async () => {
    expect(await house()["askAgain"]!()).toEqual(["Error: passing", [1, 1], [2, 2], 2]);
  });

  test("may be of any class of the module, with an id from a binding", async () => {
    expect(await house()["exported"]!()).toEqual(["House", "Tenant"]);
    await expect(house()["askWrong"]!({ class: "Tenant" })).rejects.toThrow(/a class that the module exports/); // prettier-ignore
    await expect(house()["askWrong"]!({})).rejects.toThrow(/a class that the module exports/);
  });
});

describe("the end of a facet", () => {
  test("by abort clears its memory, and by delete its storage, too", async () => {
    await count("a");
    await house()["abort"]!("a");
    await rig.settled();
    expect(await count("a")).toEqual([2, 1]);
    await house()["ask"]!("a", "below");
    await house()["drop"]!("a");
    await rig.settled();
    expect(await count("a")).toEqual([1, 1]);
    expect(await house()["ask"]!("a", "below")).toEqual([1, 1]);
    expect(await house()["drop"]!("none")).toBeUndefined();
  });

  test("completes before the next use, in the same turn and after a crash", async () => {
    await count("a");
    expect(await house()["dropAndAsk"]!("a")).toEqual([1, 1]);
    await count("a");
    const lost = rig.crashAt("after commit", House as never, "h");
    house()["drop"]!("a").catch(() => undefined);
    await lost;
    await rig.revive();
    expect(await count("a")).toEqual([1, 1]);
  });
});
