/** The examples that ask a language model, with a model on this machine. */
import type { Drive } from "./Drive.ts";
import type { Driver } from "./Driver.ts";

const env: Drive["env"] = ({ modelUrl }) => ({
  OPENAI_API_KEY: "none",
  OPENAI_BASE_URL: modelUrl,
  OPENAI_AGENTS_DISABLE_TRACING: "1", // it would be sent to the internet
});

export const MODEL_DRIVES: Readonly<Record<string, Drive>> = {
  "examples/tictactoe": { env, run: driveTicTacToe },
  "openai-sdk/basic": { env, run: driveRequest },
  "openai-sdk/handoffs": { env, run: driveRequest },
  "openai-sdk/human-in-the-loop": { env, run: driveApproval },
  "openai-sdk/llm-as-a-judge": { env, run: driveJudge },
  "openai-sdk/streaming-chat": { env, run: driveStream },
};

async function driveTicTacToe(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "tic-tac-toe", name: "g", prefix: "some/prefix" });
  await driver.seeLater("board", () => page.client.state);
  await driver.see("not its turn", () => page.call("makeMove", [0, 0], "O"));
  await driver.see("a move", () => page.call("makeMove", [1, 1], "X"));
  await driver.see("the model's move", () => page.client.state);
  await driver.see("a cell twice", () => page.call("makeMove", [1, 1], "X"));
  await driver.see("a move that it can't answer", () => page.call("makeMove", [0, 0], "X"));
  await driver.see("no such method", () => page.call("cheat"));
  await driver.see("cleared", () => page.call("clearBoard"));
  await driver.seeLater("board at last", () => page.client.state);
  page.client.setState({ ...(page.client.state as object), currentPlayer: "O" } as never);
  const second = await driver.socket({ agent: "tic-tac-toe", name: "g", prefix: "some/prefix" });
  await driver.seeLater("what another page sees", () => second.client.state);
  await driver.see("the default prefix", () => driver.http("/agents/tic-tac-toe/g"));
  await driver.see("HTTP of an agent", () => driver.http("/some/prefix/tic-tac-toe/g"));
}

async function driveRequest(driver: Driver): Promise<void> {
  await driver.see("a request", () => driver.http("/agents/my-agent/a"));
  await driver.see("an agent that is not there", () => driver.http("/agents/your-agent/a"));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveApproval(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "my-agent", name: "a" });
  const step = (): unknown => {
    const { serialisedRunState } = page.client.state as unknown as { serialisedRunState?: string };
    if (!serialisedRunState) return undefined;
    const { currentStep } = JSON.parse(serialisedRunState) as { currentStep?: { type: string; output?: string } }; // prettier-ignore
    return [currentStep?.type, currentStep?.output];
  };
  await driver.seeLater("state at first", () => page.client.state);
  await driver.see("a question", () => page.call("ask", "Weather?"));
  await driver.seeLater("it waits for a person", step);
  await driver.see("an approval of nothing", () => page.call("proceed", "nothing", true));
  await driver.see("the approval", () => page.call("proceed", "call_1", true));
  await driver.seeLater("the answer", () => (JSON.stringify(step()).includes("final") ? step() : undefined)); // prettier-ignore
}

async function driveJudge(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "my-agent", name: "a" });
  await driver.seeLater("state at first", () => page.client.state);
  await driver.see("a slogan", () => page.call("generateSlogan", "A pen"));
  await driver.seeLater("attempts", () => {
    const { chosenSlogan } = page.client.state as unknown as { chosenSlogan?: string };
    return chosenSlogan === undefined ? undefined : page.client.state;
  });
  await driver.see("reset", () => page.call("reset"));
  await driver.see("another path", () => driver.http("/nowhere"));
}

async function driveStream(driver: Driver): Promise<void> {
  const page = await driver.socket({ agent: "my-agent", name: "a" });
  // The weather is drawn by lot.
  await driver.see("chunks", async () => {
    const chunks = await driver.chunks(page, "chat", "Weather in Paris?");
    return chunks.map((chunk) => ({ ...(chunk as object), output: undefined }));
  });
  await driver.seeLater("messages", () => {
    const { messages } = page.client.state as unknown as { messages: Array<{ type?: string; role?: string }> }; // prettier-ignore
    return messages.length === 4 ? messages.map(({ type, role }) => [type, role]) : undefined;
  });
  await driver.see("clear", () => page.call("clearHistory"));
  await driver.seeLater("then", () => (JSON.stringify(page.client.state).includes("[]") ? page.client.state : undefined)); // prettier-ignore
}
