/**
 * What the model of `LocalServices` answers: a tool's call where the request offers a tool that has
 * not run yet, JSON where it asks for JSON, else a sentence. The shapes are those of OpenAI's
 * `/responses`.
 */
export interface ModelRequest {
  readonly stream?: boolean;
  readonly input: string | ReadonlyArray<{ readonly type?: string }>;
  readonly tools?: ReadonlyArray<{ readonly name: string }>;
  readonly text?: { readonly format?: { readonly schema?: { readonly properties?: object } } };
}
interface Message {
  readonly type: "message";
  readonly id: string;
  readonly role: "assistant";
  readonly status: "completed";
  readonly content: ReadonlyArray<{ readonly type: "output_text"; readonly text: string; readonly annotations: [] }>; // prettier-ignore
}
interface Call {
  readonly type: "function_call";
  readonly id: string;
  readonly call_id: string;
  readonly name: string;
  readonly arguments: string;
  readonly status: "completed";
}
interface ModelAnswer {
  readonly id: string;
  readonly output: readonly [Message | Call];
}

const SENTENCE = "An answer of the model.";
const ARGUMENTS = { location: "San Francisco", city: "Paris" };

export function answerOf(request: ModelRequest): ModelAnswer {
  const tokens = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
  return {
    id: "resp_1",
    object: "response",
    created_at: 0,
    model: "gpt-4o",
    status: "completed",
    error: null,
    incomplete_details: null,
    usage: {
      ...tokens,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens_details: { reasoning_tokens: 0 },
    },
    output: [callOf(request) ?? message(textOf(request))],
  } as ModelAnswer;
}

function callOf({ input, tools = [] }: ModelRequest): Call | undefined {
  const [tool] = tools;
  const hasRun = typeof input !== "string" && input.some(({ type }) => type === "function_call_output"); // prettier-ignore
  if (tool === undefined || hasRun) return undefined;
  const isHandoff = tool.name.startsWith("transfer_");
  const given = isHandoff ? {} : tool.name.includes("weather") ? ARGUMENTS : {};
  return { type: "function_call", id: "fc_1", call_id: "call_1", name: tool.name, arguments: JSON.stringify(given), status: "completed" }; // prettier-ignore
}

/** A judge is content once it has been heard; a player takes the left cell of the middle row. */
function textOf({ input, text }: ModelRequest): string {
  const properties = text?.format?.schema?.properties ?? {};
  if ("score" in properties)
    return JSON.stringify(
      JSON.stringify(input).includes("Feedback: ")
        ? { score: "pass", feedback: "" }
        : { score: "needs_improvement", feedback: "Shorter." },
    );
  if ("move" in properties) return JSON.stringify({ move: [1, 0] });
  return SENTENCE;
}

const message = (text: string): Message => ({
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});

/** The answer as the events of a stream. */
export function eventsOf(answer: ModelAnswer): ReadonlyArray<{ readonly type: string }> {
  const [item] = answer.output;
  const place = { output_index: 0, item_id: item.id, content_index: 0 };
  const words = item.type === "message" ? item.content[0]!.text.split(/(?<= )/) : [];
  return [
    { type: "response.created", response: { ...answer, output: [], status: "in_progress" } },
    { type: "response.output_item.added", output_index: 0, item },
    ...words.map((delta) => ({ type: "response.output_text.delta", ...place, delta })),
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: answer },
  ].map((event, sequence_number) => ({ ...event, sequence_number }));
}
