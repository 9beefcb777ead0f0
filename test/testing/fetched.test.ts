/** What an agent under test receives from `fetch`, as the code of a served agent does. */
import { brotliCompressSync, gzipSync } from "node:zlib";
import { afterEach, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";

export class ReadingAgent extends Agent {
  async read(
    url: string,
    init?: { method?: string; body?: string; redirect?: "error" | "manual" },
  ) {
    try {
      const headers = { authorization: "Bearer t", "content-type": "text/plain" };
      const answer = await fetch(url, { headers, ...init });
      const { status, redirected } = answer;
      const coding = answer.headers.get("content-encoding");
      return { status, redirected, url: answer.url, coding, text: await answer.text() };
    } catch (error) {
      return `${(error as Error).message}: ${String((error as Error).cause)}`;
    }
  }
}

let test: TestAgents;
afterEach(() => test.close());

const see = (status: number, location: string): Response =>
  new Response(null, { status, headers: { location } });

async function start(outgoing: (request: Request) => Response | Promise<Response>) {
  test = await testAgents({ agents: [ReadingAgent], outgoing });
  return test.agent(ReadingAgent, "one");
}

it("follows redirects as fetch does: method, body, credentials, and the last URL", async () => {
  const agent = await start(async (request) => {
    const { pathname, host } = new URL(request.url);
    if (pathname === "/see") return see(303, "/end");
    if (pathname === "/keep") return see(307, "https://b.example/end");
    if (pathname === "/loop") return see(302, "/loop");
    const { method, headers } = request;
    return Response.json([method, host, headers.get("authorization"), await request.text()]);
  });
  const post = { method: "POST", body: "text" };
  const end = { status: 200, redirected: true, coding: null };
  expect(await agent.read("https://a.example/see", post)).toEqual({
    ...end, url: "https://a.example/end", text: '["GET","a.example","Bearer t",""]',
  }); // prettier-ignore
  expect(await agent.read("https://a.example/keep", post)).toEqual({
    ...end, url: "https://b.example/end", text: '["POST","b.example",null,"text"]',
  }); // prettier-ignore
  expect(await agent.read("https://a.example/see", { redirect: "manual" })).toMatchObject({
    status: 303,
    redirected: false,
  });
  expect(await agent.read("https://a.example/see", { redirect: "error" })).toBe(
    "fetch failed: Error: unexpected redirect",
  );
  expect(await agent.read("https://a.example/loop")).toBe(
    "fetch failed: Error: redirect count exceeded",
  );
});

it("decodes a compressed body, and leaves out the header that says how it was sent", async () => {
  const coded = (body: Uint8Array, coding: string): Response =>
    new Response(new Uint8Array(body), { headers: { "content-encoding": coding } });
  const agent = await start(({ url }) => {
    if (url.endsWith("/gzip")) return coded(gzipSync("hello"), "gzip");
    if (url.endsWith("/both")) return coded(brotliCompressSync(gzipSync("hello")), "gzip, br");
    return coded(Buffer.from("hello"), url.endsWith("/plain") ? "gzip" : "unknown");
  });
  const plain = { status: 200, redirected: false, coding: null, text: "hello" };
  for (const path of ["gzip", "both"]) {
    const url = `https://a.example/${path}`;
    expect(await agent.read(url)).toEqual({ ...plain, url });
  }
  expect(await agent.read("https://a.example/unknown")).toMatchObject({ coding: "unknown" });
  expect(await agent.read("https://a.example/plain")).toMatch(
    "the answer to https://a.example/plain says content-encoding gzip, which it is not",
  );
});
