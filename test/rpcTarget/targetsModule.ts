/** Objects and agents that pass `RpcTarget`s to each other. */
import { Agent, getAgentByName } from "agents";
import { DurableObject, RpcTarget } from "cloudflare:workers";
import type { ObjectNamespace } from "../../core/durableObject/ObjectNamespace.ts";
import type { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";

export interface Env {
  readonly Vault: ObjectNamespace<Vault>;
  readonly Desk: AgentNamespace<Desk>;
}

/** What a stub of a target looks like to its holder. */
interface Held {
  add(by: number): Promise<number>;
  value(): Promise<number>;
  [Symbol.dispose](): void;
  readonly [method: string]: (...args: never[]) => Promise<unknown>;
}

/** An account of a vault: its methods read and write the vault's storage. */
class Account extends RpcTarget {
  readonly #vault: Vault;
  readonly secret = "a field";

  constructor(vault: Vault) {
    super();
    this.#vault = vault;
  }
  async add(by: number): Promise<number> {
    const sum = (await this.value()) + by;
    await this.#vault.storage.put("sum", sum);
    return sum;
  }
  async value(): Promise<number> {
    return (await this.#vault.storage.get<number>("sum")) ?? 0;
  }
  when(date: Date): Date {
    return new Date(date.getTime() + 1);
  }
  sub(): Account {
    return new Account(this.#vault);
  }
  fail(): never {
    throw new RangeError("overdrawn");
  }
}

export class Vault extends DurableObject<Env> {
  static options = { hibernateAfterSeconds: 1 };
  #kept: Held | undefined;

  get storage() {
    return this.ctx.storage;
  }
  open(): Account {
    return new Account(this);
  }
  both() {
    const account = new Account(this);
    return { of: ["a"], account, again: account };
  }
  /** Calls back whoever passed it. */
  async tell(listener: Held, times: number): Promise<number> {
    this.#kept = listener;
    for (let n = 0; n < times; n++) await listener.add(1);
    return listener.value();
  }
  /** The call leaves when what was written before it is stored. */
  tellAndLeave(listener: Held): void {
    void this.storage.put("told", true);
    void listener.add(5);
  }
  async tellLater(): Promise<number> {
    return this.#kept!.value();
  }
}

class Listener extends RpcTarget {
  #heard = 0;
  add(by: number): number {
    return (this.#heard += by);
  }
  value(): number {
    return this.#heard;
  }
}

type Task = (desk: Desk, vault: Methods) => Promise<unknown>;
type Methods = Record<string, (...args: unknown[]) => Promise<never>>;

export class Desk extends Agent<Env> {
  static override options = { hibernateAfterSeconds: 1 };
  held: Held | undefined;
  readonly listener = new Listener();

  static readonly tasks: Readonly<Record<string, Task>> = {
    use: async (desk, vault) => {
      const account: Held = await vault["open"]!();
      desk.held = account;
      const sub = (await account["sub"]!()) as Held;
      await account.add(5);
      const seen = [await sub.add(2), await account.value()];
      const date = await account["when"]!(new Date(7) as never);
      const error = await account["fail"]!().catch((thrown: unknown) => thrown);
      const none = await Promise.allSettled([
        account["secret"]!(),
        (account as unknown as Methods)["hasOwnProperty"]!(),
      ]);
      return {
        seen,
        date: Number(date),
        error: error instanceof RangeError && error.message,
        none: none.map((each) => (each as { reason?: Error }).reason?.message),
        like: [typeof (account as { then?: unknown }).then, Symbol.dispose in account],
      };
    },
    within: async (_, vault) => {
      const { of, account, again } = (await vault["both"]!()) as { of: string[]; account: Held; again: Held }; // prettier-ignore
      await account.add(1);
      return [of, account === again, await again.value()];
    },
    dispose: async (_, vault) => {
      const account: Held = await vault["open"]!();
      account[Symbol.dispose]();
      return account.value().catch((error: Error) => error.message);
    },
    callBack: async (_, vault) => vault["tell"]!(new Listener(), 3),
    tellAndLeave: async (desk, vault) => vault["tellAndLeave"]!(desk.listener),
    callBackAnAgent: async ({ env, name }) => {
      const other = (await getAgentByName(env.Desk, `${name}-other`)) as unknown as Methods;
      return other["hear"]!(new Listener());
    },
    passOn: async ({ env, name }, vault) => {
      const account: Held = await vault["open"]!();
      await account.add(40);
      const other = (await getAgentByName(env.Desk, `${name}-other`)) as unknown as Methods;
      return other["hear"]!(account);
    },
    ofAgent: async ({ env, name }) => {
      const other = (await getAgentByName(env.Desk, `${name}-other`)) as unknown as Methods;
      const listener: Held = await other["give"]!();
      await listener.add(2);
      const nested = await other["nest"]!().catch((error: Error) => error.message);
      return [await listener.value(), nested];
    },
  };

  run(task: string): Promise<unknown> {
    return Desk.tasks[task]!(this, this.env.Vault.getByName("one") as unknown as Methods);
  }
  async stillHolds(): Promise<string> {
    return this.held!.value().then(String, (error: Error) => error.message);
  }
  async hear(listener: Held): Promise<number> {
    await listener.add(2);
    return listener.value();
  }
  heard(): number {
    return this.listener.value();
  }
  give(): Listener {
    return new Listener();
  }
  nest(): unknown {
    return { listener: new Listener() };
  }
}
