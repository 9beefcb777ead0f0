/** The `McpAgent` that the protocol's conformance tests ask for, and an agent as a client. */
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { CompleteRequestSchema, SubscribeRequestSchema, UnsubscribeRequestSchema, type ElicitRequestFormParams } from "@modelcontextprotocol/sdk/types.js"; // prettier-ignore
import { callable, routeAgentRequest, StoredOAuthProvider } from "agents";
import { McpAgent } from "agents/mcp";
import { z } from "zod";
import { ToolAgent } from "../../mcp/toolModule.ts";

/** One red pixel. */
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="; // prettier-ignore
/** A file without a sound. */
const WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=";
const STEP_MS = 50;

const text = (value: string) => ({ type: "text" as const, text: value });
const image = { type: "image" as const, data: PNG, mimeType: "image/png" };
const said = (...content: ReadonlyArray<ReturnType<typeof text> | typeof image>) => ({
  content: [...content],
});
const embedded = (uri: string, mimeType: string, content: string) => ({
  type: "resource" as const,
  resource: { uri, mimeType, text: content },
});
const user = <Content>(content: Content) => ({ role: "user" as const, content });
const pause = (): Promise<void> => new Promise((done) => setTimeout(done, STEP_MS));
const options = (...names: string[]) => names.map((name, n) => ({ const: name, title: `Option ${n}` })); // prettier-ignore

/** By tool: the form that it shows. */
const FORMS: Readonly<Record<string, ElicitRequestFormParams["requestedSchema"]>> = {
  test_elicitation_sep1034_defaults: {
    type: "object",
    properties: {
      name: { type: "string", default: "John Doe" },
      age: { type: "integer", default: 30 },
      score: { type: "number", default: 95.5 },
      status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
      verified: { type: "boolean", default: true },
    },
  },
  test_elicitation_sep1330_enums: {
    type: "object",
    properties: {
      untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
      titledSingle: { type: "string", oneOf: options("value1", "value2", "value3") },
      legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] }, // prettier-ignore
      untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } }, // prettier-ignore
      titledMulti: { type: "array", items: { anyOf: options("value1", "value2", "value3") } },
    },
  },
};

export class ConformanceMcp extends McpAgent {
  readonly server = new McpServer(
    { name: "conformance", version: "1.0.0" },
    {
      capabilities: {
        logging: {},
        completions: {},
        resources: { subscribe: true, listChanged: true },
        tools: { listChanged: true },
        prompts: { listChanged: true },
      },
    },
  );

  init(): void {
    this.#answers();
    this.#notifications();
    this.#questions();
    this.#resources();
    this.#prompts();
  }

  #answers(): void {
    const mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'); // prettier-ignore
    const fixed = {
      test_simple_text: [text("This is a simple text response for testing.")],
      test_image_content: [image],
      test_audio_content: [{ type: "audio" as const, data: WAV, mimeType: "audio/wav" }],
      test_embedded_resource: [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")], // prettier-ignore
      test_multiple_content_types: [text("Multiple content types test:"), image, mixed],
    };
    for (const [name, content] of Object.entries(fixed))
      this.server.registerTool(name, { description: name }, async () => ({
        content: [...content],
      }));
    this.server.registerTool("test_error_handling", { description: "Fails" }, async () => {
      throw new Error("This tool intentionally returns an error for testing");
    });
    this.server.registerTool(
      "json_schema_2020_12_tool",
      { description: "Its schema", inputSchema: { name: z.string().optional() } },
      async () => said(text("ok")),
    );
  }

  #notifications(): void {
    this.server.registerTool(
      "test_tool_with_logging",
      { description: "Logs", inputSchema: {} },
      async (_args, { sendNotification }) => {
        for (const data of [
          "Tool execution started",
          "Tool processing data",
          "Tool execution completed",
        ]) {
          // prettier-ignore
          await sendNotification({ method: "notifications/message", params: { level: "info", data } }); // prettier-ignore
          await pause();
        }
        return said(text("Tool with logging executed successfully"));
      },
    );
    this.server.registerTool(
      "test_tool_with_progress",
      { description: "Reports progress", inputSchema: {} },
      async (_args, { sendNotification, _meta }) => {
        const progressToken = _meta?.progressToken ?? 0;
        for (const progress of [0, 50, 100]) {
          const params = { progressToken, progress, total: 100 };
          await sendNotification({ method: "notifications/progress", params });
          await pause();
        }
        return said(text(String(progressToken)));
      },
    );
    this.server.registerTool(
      "test_reconnection",
      { description: "Closes its stream", inputSchema: {} },
      async (_args, { closeSSEStream }) => {
        closeSSEStream?.();
        await pause();
        return said(text("Answered after the stream was closed"));
      },
    );
  }

  #questions(): void {
    const { server } = this.server;
    this.server.registerTool(
      "test_sampling",
      { description: "Asks the model", inputSchema: { prompt: z.string() } },
      async ({ prompt }, { requestId }) => {
        const messages = [user(text(prompt))];
        const { content } = await server.createMessage({ messages, maxTokens: 100 }, { relatedRequestId: requestId }); // prettier-ignore
        const [first] = [content].flat();
        return said(text(`LLM response: ${first?.type === "text" ? first.text : ""}`));
      },
    );
    this.server.registerTool(
      "test_elicitation",
      { description: "Asks the user", inputSchema: { message: z.string() } },
      async ({ message }, { requestId }) => {
        const requestedSchema = { type: "object", properties: { response: { type: "string" } }, required: ["response"] }; // prettier-ignore
        const { action, content } = await this.elicitInput({ message, requestedSchema }, { relatedRequestId: requestId }); // prettier-ignore
        return said(text(`User response: action=${action}, content=${JSON.stringify(content)}`));
      },
    );
    for (const [name, requestedSchema] of Object.entries(FORMS))
      this.server.registerTool(
        name,
        { description: "Shows a form", inputSchema: {} },
        async (_args, { requestId }) => {
          const { action, content } = await this.elicitInput({ message: name, requestedSchema }, { relatedRequestId: requestId }); // prettier-ignore
          return said(text(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`)); // prettier-ignore
        },
      );
    server.setRequestHandler(CompleteRequestSchema, () => ({
      completion: { values: [], total: 0, hasMore: false },
    }));
  }

  #resources(): void {
    const resource = (
      name: string,
      mimeType: string,
      content: { text: string } | { blob: string },
    ) =>
      this.server.registerResource(name, `test://${name}`, { mimeType }, async ({ href }) => ({
        contents: [{ uri: href, mimeType, ...content }],
      }));
    resource("static-text", "text/plain", { text: "This is the content of the static text resource." }); // prettier-ignore
    resource("static-binary", "image/png", { blob: PNG });
    resource("watched-resource", "text/plain", { text: "Watched resource content" });
    this.server.registerResource(
      "template",
      new ResourceTemplate("test://template/{id}/data", { list: undefined }),
      { mimeType: "application/json" },
      async ({ href }, { id }) => ({
        contents: [{ uri: href, mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${String(id)}` }) }], // prettier-ignore
      }),
    );
    for (const schema of [SubscribeRequestSchema, UnsubscribeRequestSchema])
      this.server.server.setRequestHandler(schema, () => ({}));
  }

  #prompts(): void {
    this.server.registerPrompt("test_simple_prompt", { description: "A text" }, () => ({
      messages: [user(text("This is a simple prompt for testing."))],
    }));
    this.server.registerPrompt(
      "test_prompt_with_arguments",
      { description: "Two arguments", argsSchema: { arg1: z.string(), arg2: z.string() } },
      ({ arg1, arg2 }) => ({
        messages: [user(text(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`))],
      }),
    );
    this.server.registerPrompt(
      "test_prompt_with_embedded_resource",
      { description: "A resource", argsSchema: { resourceUri: z.string() } },
      ({ resourceUri }) => ({
        messages: [
          user(embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
          user(text("Please process the embedded resource above.")),
        ],
      }),
    );
    this.server.registerPrompt("test_prompt_with_image", { description: "An image" }, () => ({
      messages: [user(image), user(text("Please analyze the image above."))],
    }));
  }
}

/** Uses the servers of the tests, and answers what they ask with the defaults of their forms. */
export class ConformanceAgent extends ToolAgent {
  /** In memory: the agent stays there for one scenario. */
  private registration: Registration | undefined;

  /** As an app that was registered with an authorization server, or has a document about itself. */
  @callable()
  register(registration: Registration): void {
    this.registration = registration;
  }
  override createMcpOAuthProvider(callbackUrl: string): StoredOAuthProvider {
    const provider = super.createMcpOAuthProvider(callbackUrl) as StoredOAuthProvider;
    const { client, metadataUrl } = this.registration ?? {};
    if (client !== undefined) provider.clientInformation = async () => client;
    return metadataUrl === undefined ? provider : Object.assign(provider, { clientMetadataUrl: metadataUrl }); // prettier-ignore
  }
  override onStart(): void {
    this.mcp.configureElicitationHandlers({
      form: async ({ params }) => ({ action: "accept", content: defaultsOf(params.requestedSchema) }), // prettier-ignore
    });
  }
}

/** What somebody has registered for the app. */
interface Registration {
  readonly client?: { readonly client_id: string; readonly client_secret?: string };
  /** The address of its metadata document. */
  readonly metadataUrl?: string;
}

/** What a form holds before its user changes anything. */
function defaultsOf(schema: unknown): Record<string, string | number | boolean | string[]> {
  const { properties = {} } = (schema ?? {}) as {
    properties?: Record<string, { default?: string }>;
  };
  const fields = Object.entries(properties).map(([name, field]) => [name, field.default]);
  return Object.fromEntries(fields.filter(([, value]) => value !== undefined)) as Record<string, string>; // prettier-ignore
}

const server = ConformanceMcp.serve("/mcp");

export default {
  fetch: async (request: Request, env: object, context: object): Promise<Response> =>
    (await routeAgentRequest(request, env)) ?? server.fetch(request, env, context),
};
