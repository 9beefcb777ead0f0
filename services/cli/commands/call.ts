/**
 * `agents call <class> <name> <method> [json…]`: one call of a public method, as a stub makes it, by
 * whichever host owns the agent.
 */
import { AgentUnreachable } from "../../../core/call/CallClient.ts";
import { addressKey } from "../../../schemas/Address.ts";
import type { CallReply, RemoteError } from "../../../schemas/Call.ts";
import { failed, usage } from "../CliError.ts";
import { address, resolveClass } from "../findAgent.ts";
import type { ReadPorts } from "../../wiring/Joins.ts";
import type { Terminal } from "../Terminal.ts";

export interface CallOptions {
  readonly className: string;
  readonly name: string;
  readonly method: string;
  /** Each is JSON text. */
  readonly args: ReadonlyArray<string>;
  readonly json: boolean;
  readonly timeoutMs: number;
}

export async function call(
  ports: ReadPorts,
  terminal: Terminal,
  options: CallOptions,
): Promise<void> {
  const { method } = options;
  const args = options.args.map(readArgument);
  const id = address(await resolveClass(ports.journal, options.className), options.name);
  let reply: CallReply;
  try {
    const rpc = { kind: "rpc", method, args } as const;
    const bounds = { deadlineMs: options.timeoutMs, repeatable: false };
    ({ reply } = await ports.calls.call(id, rpc, bounds));
  } catch (error) {
    if (!(error instanceof AgentUnreachable)) throw error;
    throw failed(`${error.message}. Does a host run ("agents dev", "agents host")?`);
  }
  if (reply.kind === "error")
    throw failed(`${addressKey(id)}.${method}(): ${describeError(reply)}`);
  if (reply.kind !== "result") throw new Error(`unexpected ${reply.kind} reply`);
  if (options.json) terminal.out(JSON.stringify(reply.value ?? null));
  else if (reply.value === undefined) terminal.err("Done; it returned nothing.");
  else terminal.out(JSON.stringify(reply.value, undefined, 2));
}

/** Strict: what "12" and "null" mean must not depend on what happens to be JSON. */
function readArgument(text: string, index: number): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw usage(
      `Argument ${index + 1} is not JSON: ${text}\nA string has quotes of its own: '${JSON.stringify(text)}'`,
    );
  }
}

function describeError({ name, message, cause }: RemoteError): string {
  const text = `${name}: ${message}`;
  if (cause === undefined) return text;
  const because = "error" in cause ? describeError(cause.error) : JSON.stringify(cause.value);
  return `${text}\n  caused by ${because}`;
}
