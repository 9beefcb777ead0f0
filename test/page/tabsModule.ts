/** A note that its tabs see and may change unless it is readonly; its page is served here. */
import { readFileSync } from "node:fs";
import { Agent, routeAgentRequest, type Connection, type ConnectionContext } from "agents";

export class NoteAgent extends Agent<{ CLIENT_BUNDLE: string }, { text: string }> {
  override initialState = { text: "" };

  override shouldConnectionBeReadonly(_connection: Connection, { request }: ConnectionContext) {
    return new URL(request.url).searchParams.has("readonly");
  }
}

const PAGE = `<!doctype html><title>note</title>
<output id="text"></output><output id="error"></output>
<script type="module">
  import { AgentClient } from "/client.js";
  const readonly = location.search.includes("readonly");
  const client = new AgentClient({
    agent: "NoteAgent", name: "shared", host: location.host,
    query: readonly ? { readonly: "1" } : {},
    onStateUpdate: (state) => { document.getElementById("text").value = state.text; },
    onStateUpdateError: (error) => { document.getElementById("error").value = error; },
  });
  window.note = client;
  client.ready.then(() => document.body.setAttribute("data-ready", "yes"));
</script>`;

const HOOK_PAGE = `<!doctype html><title>note</title><div id="root"></div>
<script type="module" src="/hook.js"></script>`;

export default {
  async fetch(
    request: Request,
    env: { CLIENT_BUNDLE: string; HOOK_BUNDLE: string },
  ): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname === "/hook")
      return new Response(HOOK_PAGE, { headers: { "content-type": "text/html" } });
    if (pathname === "/hook.js")
      return new Response(readFileSync(env.HOOK_BUNDLE), {
        headers: { "content-type": "text/javascript" },
      });
    if (pathname === "/") return new Response(PAGE, { headers: { "content-type": "text/html" } });
    if (pathname === "/client.js")
      return new Response(readFileSync(env.CLIENT_BUNDLE), {
        headers: { "content-type": "text/javascript" },
      });
    return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
  },
};
