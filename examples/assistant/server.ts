/**
 * An assistant that answers questions with a language model: it looks things up, charges for the
 * answer, and streams it. All of that survives its host: a tool that has run is not run again, the
 * model continues after the stored text, and readers resume at their place. `README.md` shows it.
 */
import {
  Agent,
  callable,
  getCurrentAgent,
  type DurableStream,
  type StreamingResponse,
} from "agents";

interface Env {
  /** The URL of the model and the tools; `model.ts` simulates both. */
  readonly MODEL_URL: string;
}

interface State {
  /** Questions answered so far. */
  readonly answered: number;
  readonly charged: number;
}

interface Question {
  readonly id: string;
  readonly question: string;
}

/** Maximum tokens of one answer. */
const TOKENS_MAX = 500;
/** What a stream's key may have. */
const ID_LENGTH_MAX = 256;
/** How long readers find an answer after its last word. */
const KEPT = { keep: "1 day" } as const;

export class AssistantAgent extends Agent<Env, State> {
  override initialState = { answered: 0, charged: 0 };

  /** Asks a question, once for each id. Its answer is the durable stream with that id. */
  @callable()
  async ask(id: string, question: string): Promise<void> {
    if (this.stream(id).status !== "absent") return;
    this.stream(id, KEPT).begin();
    await this.queue("answer", { id, question } satisfies Question, { id, retry: RETRY });
  }

  override onStart(): void {
    if (!this.env.MODEL_URL) throw new Error("MODEL_URL is not set: it is the URL of the model");
  }

  /** One item of the queue: it is retried from its start, `RETRY.maxAttempts` times in all. */
  async answer(item: Question): Promise<void> {
    const stream = this.stream(item.id, KEPT);
    if (stream.status === "ended") return;
    // `agents dead redrive` runs it once more: readers begin again, tools have the same keys.
    if (stream.status === "failed") stream.remove();
    try {
      await this.produce(item, stream);
    } catch (error) {
      // Nothing continues a dead letter by itself, so its readers are told not to wait.
      if (getCurrentAgent().attempt >= RETRY.maxAttempts) stream.fail("There is no answer");
      throw error;
    }
  }

  private async produce({ id, question }: Question, stream: DurableStream): Promise<void> {
    // Steps: each result is journaled, and returned when this runs again.
    const facts = await this.step("search", () => this.tool<string[]>("search", { id, question }));
    const price = await this.step("quote", () => this.tool<number>("quote", { id, facts }));
    await this.step("charge", () => this.tool("charge", { id, price }));
    // Reserved once, however often this runs.
    const spend = await this.spend("tokens", TOKENS_MAX, { limit: 1_000_000, per: "day" });
    // The model continues after the stored text.
    for await (const token of this.model({ id, question, facts, prefix: stream.text }))
      stream.write(token);
    spend.settle(stream.sequence);
    const { answered, charged } = this.state;
    this.setState({ answered: answered + 1, charged: charged + price });
    stream.end({ tokens: stream.sequence, price });
  }

  /** POST asks; GET reads, as server-sent events: `new EventSource("…?id=42")`. */
  override async onRequest(request: Request): Promise<Response> {
    const id = new URL(request.url).searchParams.get("id") ?? "";
    if (id === "" || id.length > ID_LENGTH_MAX)
      return new Response(`An id has 1 to ${ID_LENGTH_MAX} characters`, { status: 400 });
    if (request.method === "GET") return this.stream(id).response(request);
    if (request.method !== "POST") return new Response("Method not allowed", { status: 405 });
    await this.ask(id, await request.text());
    return new Response("Accepted", { status: 202 });
  }

  /** The same for a client's call: the answer, from its first token. */
  @callable({ streaming: true })
  watch(response: StreamingResponse, id: string): void {
    response.follow(this.stream(id));
  }

  /** In a step, `fetch` sends the step's idempotency key. */
  private async tool<Result>(name: string, input: object): Promise<Result> {
    const response = await this.post(`tools/${name}`, input);
    return (await response.json()) as Result;
  }

  /** The model's tokens, one JSON text a line. */
  private async *model(input: object): AsyncIterable<string> {
    const response = await this.post("answer", input);
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of response.body!) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const line of lines) yield JSON.parse(line) as string;
    }
  }

  private async post(path: string, input: object): Promise<Response> {
    const response = await fetch(`${this.env.MODEL_URL}/${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ agent: this.name, ...input }),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  }
}

/** Retries for about a minute while the model is unavailable: five seconds between attempts. */
const RETRY = { maxAttempts: 18, baseDelayMs: 200, maxDelayMs: 10_000 };
