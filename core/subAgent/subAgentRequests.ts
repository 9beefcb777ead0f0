/**
 * Sub-agents from outside their parent: for a worker's `fetch`, which holds a stub of the parent.
 */
import { makeStub } from "../namespace/makeStub.ts";
import { stubTarget } from "../namespace/stubTarget.ts";
import type { AgentStub } from "../namespace/AgentStub.ts";
import { decodeError } from "../call/remoteError.ts";
import { agentPath, idOfPath } from "../../schemas/AgentPath.ts";
import { nameOf, type AnyAgent, type SubAgentClass } from "./SubAgents.ts";
import { parseSubAgentPath } from "../namespace/subAgentPaths.ts";

/** As long as a stub's own calls. */
const ADD_DEADLINE_MS = 60_000;

/**
 * Sends a request to the sub-agent that its path names, by way of the parent's `onBeforeSubAgent`.
 * `fromPath`: this path (and query, if it has one) in place of the request's. 400 where it names
 * none.
 */
export async function routeSubAgentRequest(
  request: Request,
  parent: unknown,
  { fromPath }: { readonly fromPath?: string } = {},
): Promise<Response> {
  const url = new URL(request.url);
  if (fromPath !== undefined) {
    const given = new URL(fromPath.startsWith("/") ? fromPath : `/${fromPath}`, url);
    url.pathname = given.pathname;
    if (given.search !== "") url.search = given.search;
  }
  if (parseSubAgentPath(url.href) === null)
    return new Response("Sub-agent path not found in request URL", { status: 400 });
  const stub = parent as Pick<AgentStub, "fetch">;
  return stub.fetch(new Request(url, request));
}

/**
 * A handle on a sub-agent, for calls only. Each call asks the parent first, and the parent's own
 * parent before it, so a sub-agent that was deleted is created and listed again. Does not ask
 * `onBeforeSubAgent`. A first argument that is no stub is a `TypeError`.
 */
export async function getSubAgentByName<A extends AnyAgent>(
  parent: unknown,
  agentClass: SubAgentClass<A>,
  name: string,
): Promise<AgentStub<A>> {
  const target = stubTarget(parent);
  if (target === undefined)
    throw new TypeError(
      "getSubAgentByName: the first argument is not a stub. Get the parent's with getAgentByName(env.<Class>, name)",
    );
  const { client, id, options } = target;
  const className = nameOf(agentClass);
  const before = async (): Promise<void> => {
    await options.before?.();
    const how = { deadlineMs: ADD_DEADLINE_MS, repeatable: true };
    const { reply } = await client().call(id, { kind: "child", op: "add", className, name }, how);
    if (reply.kind === "error") throw decodeError(reply);
  };
  const stub = makeStub<A>(client, idOfPath([...agentPath(id), { className, name }]), { before });
  return new Proxy(stub, {
    get: (of, key) => {
      if (key !== "fetch") return Reflect.get(of, key) as unknown;
      return () => {
        throw new Error(
          "getSubAgentByName returns an RPC-only stub: .fetch() is not supported. Use routeSubAgentRequest(), or the URL /agents/{parent}/{name}/sub/{child}/{name}",
        );
      };
    },
  });
}
