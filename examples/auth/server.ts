/**
 * Callers that must authenticate: HTTP requests and WebSockets carry a JWT, and each user
 * reaches the agent of their own name only. The check runs in the gateway, before an agent is
 * woken. README.md says how to try it.
 */
import { Agent, routeAgentRequest, type AgentNamespace } from "agents";
import { verifyToken } from "./verifyToken.ts";

interface Env {
  readonly JWT_SECRET: string;
  readonly Notebook: AgentNamespace<Notebook>;
}

interface Notes {
  readonly notes: ReadonlyArray<string>;
}

export class Notebook extends Agent<Env, Notes> {
  override initialState: Notes = { notes: [] };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "POST")
      this.setState({ notes: [...this.state.notes, await request.text()] });
    return Response.json({ of: this.name, ...this.state });
  }
}

/** A Response refuses; undefined lets the request through to the agent. */
function authorize(request: Request, env: Env, name: string): Response | undefined {
  if (env.JWT_SECRET === undefined || env.JWT_SECRET === "")
    throw new Error("JWT_SECRET is not set: nobody can be let in");
  const header = /^Bearer (\S+)$/.exec(request.headers.get("authorization") ?? "")?.[1];
  const token = header ?? new URL(request.url).searchParams.get("token") ?? "";
  const claims = verifyToken(token, {
    secret: env.JWT_SECRET,
    audience: "notebooks",
    nowMs: Date.now(),
  });
  if (claims === undefined)
    return new Response("Say who you are", {
      status: 401,
      headers: { "www-authenticate": 'Bearer realm="notebooks"' },
    });
  // Names are not decoded: of the ways to write the user's in a URL, one is their agent.
  const isTheirs = encodeURIComponent(claims.sub) === name;
  return isTheirs ? undefined : new Response("Not yours", { status: 403 });
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const check = (asked: Request, route: { readonly name: string }): Response | undefined =>
      authorize(asked, env, route.name);
    const response = await routeAgentRequest(request, env, {
      onBeforeRequest: check,
      onBeforeConnect: check,
    });
    return response ?? new Response("Not found", { status: 404 });
  },
};
