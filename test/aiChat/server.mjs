/**
 * The app of `npm run chat-kills`: an `AIChatAgent` of the reference's `@cloudflare/ai-chat`, with
 * nothing of its own but a model. `installApp` copies it into a folder that has the packages.
 */
import { AIChatAgent } from "@cloudflare/ai-chat";
import { routeAgentRequest } from "agents";
import { convertToModelMessages, streamText } from "ai";

export class Chat extends AIChatAgent {
  async onChatMessage() {
    const messages = await convertToModelMessages(this.messages);
    return streamText({ model: modelOf(this.name), messages }).toUIMessageStreamResponse();
  }
}

export default {
  fetch: async (request, env) =>
    (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 }),
};

/** A model that requests its words from `MODEL_URL`, with how far its answer had come. */
const modelOf = (chat) => ({
  specificationVersion: "v3",
  provider: "test",
  modelId: "words",
  supportedUrls: {},
  async doStream({ prompt, abortSignal }) {
    const asked = prompt.findLastIndex(({ role }) => role === "user");
    const body = JSON.stringify({
      chat,
      question: textOf(prompt[asked]),
      // An answer that was interrupted is several messages.
      said: prompt
        .slice(asked + 1)
        .map(textOf)
        .join(""),
      turns: prompt.filter(({ role }) => role === "user").length,
    });
    const answer = await fetch(process.env.MODEL_URL, {
      method: "POST",
      body,
      signal: abortSignal,
    });
    const parts = new TransformStream({
      start(controller) {
        controller.enqueue({ type: "stream-start", warnings: [] });
        controller.enqueue({ type: "text-start", id: "t" });
      },
      transform: (delta, controller) => controller.enqueue({ type: "text-delta", id: "t", delta }),
      flush(controller) {
        controller.enqueue({ type: "text-end", id: "t" });
        const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
        controller.enqueue({
          type: "finish",
          finishReason: { unified: "stop", raw: "stop" },
          usage,
        });
      },
    });
    return { stream: answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(parts) };
  },
});

const textOf = ({ content }) =>
  content
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("");
