/** Who is let in, by HTTP and by WebSocket, and who is not. */
import { createHmac } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";
import { verifyToken } from "./verifyToken.ts";

const SECRET = "of the notebooks";

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
const hourFromNow = (): number => Math.floor(Date.now() / 1000) + 3600;

function token(claims: object, secret = SECRET, alg = "HS256"): string {
  const text = `${part({ alg, typ: "JWT" })}.${part({ aud: "notebooks", exp: hourFromNow(), ...claims })}`;
  return `${text}.${createHmac("sha256", secret).update(text).digest("base64url")}`;
}

let test: TestAgents;
beforeEach(async () => {
  test = await testAgents({ module: server, env: { JWT_SECRET: SECRET } });
});
afterEach(() => test.close());

const get = (path: string, bearer?: string): Promise<Response> =>
  test.fetch(path, bearer === undefined ? {} : { headers: { authorization: `Bearer ${bearer}` } });

describe("a notebook", () => {
  it("is open to the user whose name it has", async () => {
    const response = await get("/agents/notebook/ada", token({ sub: "ada" }));
    expect([response.status, await response.json()]).toEqual([200, { of: "ada", notes: [] }]);
  });

  it("is closed to other users", async () => {
    expect((await get("/agents/notebook/ada", token({ sub: "bob" }))).status).toBe(403);
  });

  it("has one address: the user's name as encodeURIComponent writes it", async () => {
    const status = async (name: string, sub: string): Promise<number> =>
      (await get(`/agents/notebook/${name}`, token({ sub }))).status;
    expect(await status("a%40b.example", "a@b.example")).toBe(200);
    expect(await status("a@b.example", "a@b.example")).toBe(403);
    expect(await status("%61da", "ada")).toBe(403);
    expect(await status("%ff", "ada")).toBe(403);
    expect((await get("/agents/notebook/%ff")).status).toBe(401);
  });

  it.each([
    ["no token", undefined],
    ["another's signature", token({ sub: "ada" }, "guessed")],
    ["no signature at all", `${part({ alg: "none" })}.${part({ sub: "ada" })}.`],
    ["an expired token", token({ sub: "ada", exp: 1_000_000_000 })],
    ["a token that never expires", token({ sub: "ada", exp: undefined })],
    ["a token for something else", token({ sub: "ada", aud: "photos" })],
    ["text", "text"],
  ])("is closed to %s, and wakes no agent", async (_, bearer) => {
    const response = await get("/agents/notebook/ada", bearer);
    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).toContain("Bearer");
  });

  it("takes a token in the query, as browsers' WebSockets must send it", async () => {
    const path = `/agents/notebook/ada?token=${token({ sub: "ada" })}`;
    expect((await get(path)).status).toBe(200);
  });

  it("opens a WebSocket to its user, and refuses everybody else's before the agent has one", async () => {
    const client = await test.connect(server.Notebook, "ada", {
      query: { token: token({ sub: "ada" }) },
    });
    expect(client.state).toEqual({ notes: [] });
    const query = { token: token({ sub: "bob" }) };
    await expect(test.connect(server.Notebook, "ada", { query })).rejects.toThrow("403");
    await expect(test.connect(server.Notebook, "ada")).rejects.toThrow("401");
  });

  it("a changed claim breaks the signature", () => {
    const [head, , signature] = token({ sub: "ada" }).split(".");
    const forged = `${head}.${part({ sub: "root", aud: "notebooks", exp: hourFromNow() })}.${signature}`;
    const rules = { secret: SECRET, audience: "notebooks", nowMs: Date.now() };
    expect(verifyToken(forged, rules)).toBeUndefined();
    expect(verifyToken(token({ sub: "ada" }), rules)?.sub).toBe("ada");
  });
});
