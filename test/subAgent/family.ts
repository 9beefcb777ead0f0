/** A family of agents for tests of sub-agents: supervisors, runners below, tools below those. */
import { Agent, callable, type Connection, type ConnectionContext } from "agents";

export class Supervisor extends Agent {
  /** The last children asked about, and what is done with the next request for one. */
  asked: unknown[] = [];
  answer: "pass" | "refuse" | "fail" | "change" | "throw" = "pass";

  override async onBeforeSubAgent(
    request: Request,
    child: { readonly className: string; readonly name: string },
  ): Promise<Request | Response | void> {
    this.asked.push({ ...child, path: new URL(request.url).pathname });
    if (this.answer === "refuse") return new Response("not for you", { status: 404 });
    if (this.answer === "fail") return new Response("later", { status: 503 });
    if (this.answer === "throw") throw new Error("the hook fails");
    if (this.answer !== "change") return undefined;
    const url = new URL(request.url);
    url.pathname = "/elsewhere";
    url.searchParams.set("user", "7");
    const isUpgrade = request.headers.get("upgrade") !== null;
    return new Request(url, {
      method: isUpgrade ? "GET" : "PUT",
      headers: { ...Object.fromEntries(request.headers), "x-user": "7" },
      ...(isUpgrade ? {} : { body: "changed" }),
    });
  }
  override onRequest(request: Request): Response {
    return Response.json({ supervisor: this.name, path: new URL(request.url).pathname });
  }
  setAnswer(answer: Supervisor["answer"]): unknown[] {
    this.answer = answer;
    return this.asked.splice(0);
  }
  async make(name: string): Promise<string> {
    const runner = await this.subAgent(Runner, name);
    return runner.name;
  }
  async tell(name: string, text: string): Promise<unknown> {
    const runner = await this.dynamicAgents.get(Runner, name);
    return runner.note(text);
  }
  async remakeWhileDeleted(name: string): Promise<unknown> {
    const deleted = this.deleteSubAgent(Runner, name);
    await Promise.all([deleted, this.tell(name, "again")]);
    return this.dynamicAgents.list().map((each) => `${each.className} ${each.name}`);
  }
  async notesOf(name: string): Promise<unknown> {
    return (await this.subAgent(Runner, name)).notes();
  }
  async makeAny(className: string, name: string): Promise<unknown> {
    // A class that goes by that name, exported or not.
    const named = { [className]: class extends Agent {} }[className]!;
    return (await this.subAgent(named, name)).name;
  }
  async makeFailing(name: string): Promise<void> {
    await this.subAgent(Failing, name);
  }
  list(className?: string): unknown[] {
    return this.listSubAgents(className).map(({ className: of, name }) => `${of} ${name}`);
  }
  has(name: string): boolean[] {
    return [this.hasSubAgent(Runner, name), this.dynamicAgents.has("Runner", name)];
  }
  remove(name: string): Promise<void> {
    return this.deleteSubAgent(Runner, name);
  }
  removeFailing(name: string): Promise<void> {
    return this.dynamicAgents.delete(Failing, name);
  }
  stop(name: string, reason: string): void {
    this.abortSubAgent(Runner, name, new Error(reason));
  }
  async giveUp(): Promise<string> {
    await this.destroy();
    return "gone";
  }
  heard(from: string, text: string): string {
    return `${this.name} heard ${text} from ${from}`;
  }
  where(): unknown {
    return { parentPath: this.parentPath, selfPath: this.selfPath };
  }
  async parentOfNone(): Promise<unknown> {
    return this.parentAgent(Supervisor);
  }
}

export class Runner extends Agent<unknown, { readonly count: number }> {
  override initialState = { count: 0 };
  /** Counted since the agent came into memory. */
  #unsaved = 0;

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (text TEXT)`;
  }
  override async onRequest(request: Request): Promise<Response> {
    const url = new URL(request.url);
    if (url.pathname === "/stream") return new Response(pieces());
    if (url.pathname === "/destroy") {
      await this.destroy();
      return new Response("destroyed");
    }
    return Response.json({
      runner: this.name,
      method: request.method,
      path: url.pathname + url.search,
      user: request.headers.get("x-user"),
      body: await request.text(),
    });
  }
  override onConnect(connection: Connection, { request }: ConnectionContext): void {
    const { pathname, search } = new URL(request.url);
    connection.send(JSON.stringify({ at: pathname + search, user: request.headers.get("x-user") }));
  }
  note(text: string): number {
    this.sql`INSERT INTO notes VALUES (${text})`;
    this.setState({ count: this.state.count + 1 });
    return this.state.count;
  }
  notes(): string[] {
    return this.sql<{ text: string }>`SELECT text FROM notes`.map(({ text }) => text);
  }
  @callable()
  add(by: number): number {
    this.setState({ count: this.state.count + by });
    return this.state.count;
  }
  remember(): number {
    return ++this.#unsaved;
  }
  async hang(): Promise<void> {
    this.#unsaved = -1;
    await new Promise<never>(() => undefined);
  }
  unsaved(): number {
    return this.#unsaved;
  }
  async later(seconds: number, text: string): Promise<void> {
    await this.schedule(seconds, "note", text);
  }
  planned(): number {
    return this.getSchedules().length;
  }
  where(): unknown {
    return {
      name: this.name,
      id: this.ctx.id.name,
      parentPath: this.parentPath,
      selfPath: this.selfPath,
    };
  }
  async askParent(text: string): Promise<string> {
    const parent = await this.parentAgent(Supervisor);
    return parent.heard(this.name, text);
  }
  async askWrongParent(): Promise<unknown> {
    return this.parentAgent(Tool);
  }
  async useTool(name: string): Promise<unknown> {
    return (await this.subAgent(Tool, name)).use();
  }
  tools(): number {
    return this.listSubAgents().length;
  }
  async leave(): Promise<void> {
    await this.destroy();
  }
}

export class Tool extends Agent<unknown, { readonly uses: number }> {
  override initialState = { uses: 0 };
  async use(): Promise<unknown> {
    this.setState({ uses: this.state.uses + 1 });
    const runner = await this.parentAgent(Runner);
    return { uses: this.state.uses, path: this.selfPath, parent: await runner.remember() };
  }
  override onRequest(request: Request): Response {
    return Response.json({ tool: this.name, path: new URL(request.url).pathname });
  }
}

export class Failing extends Agent {
  override onStart(): void {
    throw new Error("no start today");
  }
}

/** Keeps what it was started with. */
export class Keeper extends Agent {
  #props: unknown = null;
  override onStart(props?: Record<string, unknown>): void {
    this.#props = props ?? null;
  }
  override onRequest(): Response {
    return Response.json({ name: this.name, props: this.#props });
  }
}

/** Its name in kebab case is the separator's. */
export class Sub extends Agent {}

function pieces(): ReadableStream<Uint8Array> {
  let n = 0;
  return new ReadableStream({
    async pull(controller) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      controller.enqueue(new TextEncoder().encode(`piece ${++n};`));
      if (n === 3) controller.close();
    },
  });
}
