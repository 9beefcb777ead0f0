/** Links of approvals, attacked: previews and links that are not right decide nothing. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { APPROVAL_PATH, makeApprovalLink, readToken } from "../../core/approval/approvalLink.ts";
import { agentId } from "../../schemas/Address.ts";
import { nodeOutgoing } from "../../services/node/NodeOutgoing.ts";
import * as refunds from "./refunds.ts";
import { Desk, office, ORIGIN, RefundWorkflow } from "./refunds.ts";

const SECRET = "a secret of at least 32 characters";
const env = { APPROVAL_SECRET: SECRET };
let test: TestAgents;
beforeEach(async () => {
  office.reset();
  test = await testAgents({ module: refunds, env });
});
afterEach(() => test.close());

const desk = () => test.agent(Desk, "d");
const soon = () => test.advance("1 s");
const post = (link: string, body: string, type = "application/x-www-form-urlencoded") =>
  test.fetch(link, { method: "POST", body, headers: { "content-type": type } });
const approve = (link: string) => post(link, "answer=approve");
const tokenOf = (link: string) => new URL(link).searchParams.get("token")!;
const withToken = (token: string) => `${ORIGIN}${APPROVAL_PATH}?token=${token}`;
const statuses = async () => (await desk().getApprovals()).map(({ status }) => status);

async function asked(order: object = {}): Promise<string> {
  await desk().begin(order);
  await soon();
  return office.links.at(-1)!;
}

describe("a link", () => {
  it("shows a page that asks, and its buttons decide", async () => {
    const link = await asked({ prompt: "Refund <b>40</b> €?\nFor Ann" });
    const page = await test.fetch(link);
    expect(page.status).toBe(200);
    const html = await page.text();
    expect(html).toContain("Refund &lt;b&gt;40&lt;/b&gt; €?\nFor Ann");
    expect(html).toContain("You answer as ann@example.com");
    expect(html).toContain('<form method="post">');
    const answer = await post(link, "answer=approve&reason=fine+%3Ci%3E");
    expect(answer.status).toBe(200);
    expect(await answer.text()).toMatch(/Approved<\/strong> by ann@example.com, <time/);
    await soon();
    expect(office.log).toEqual(["paid, said ann@example.com"]);
    expect(await desk().getApprovals()).toMatchObject([{ reason: "fine <i>" }]);
    const later = await (await test.fetch(link)).text();
    expect(later).toContain("fine &lt;i&gt;");
    expect(later).not.toContain("<form");
  });

  it("works the same for a workflow", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    expect((await post(office.links[0]!, "answer=reject&reason=no")).status).toBe(200);
    await soon();
    expect(office.log).toEqual([
      'ApprovalRejected: approval "refund" was rejected by ann@example.com: no',
    ]);
  });

  it("decides nothing when it is opened, previewed or scanned", async () => {
    const link = await asked();
    for (const method of ["GET", "HEAD", "GET", "HEAD"])
      expect((await test.fetch(link, { method })).status).toBe(200);
    expect((await test.fetch(`${link}&answer=approve`)).status).toBe(200);
    for (const method of ["PUT", "DELETE", "OPTIONS", "PATCH"])
      expect((await test.fetch(link, { method })).status).toBe(405);
    expect(await statuses()).toEqual(["waiting"]);
  });

  it("shows a page that can't be framed, cached, scripted or leaked by a referrer", async () => {
    const { headers } = await test.fetch(await asked());
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(headers.get("content-security-policy")).toContain("frame-ancestors 'none'");
    expect(headers.get("x-frame-options")).toBe("DENY");
    expect(headers.get("cache-control")).toBe("no-store");
    expect(headers.get("referrer-policy")).toBe("no-referrer");
  });

  it("submitted again after the decision changes nothing, and shows what was decided", async () => {
    const link = await asked();
    await approve(link);
    await soon();
    expect((await approve(link)).status).toBe(200);
    const other = await post(link, "answer=reject");
    expect(other.status).toBe(409);
    expect(await other.text()).toContain("changed nothing");
    expect(await desk().getApprovals()).toMatchObject([
      { status: "approved", by: "ann@example.com" },
    ]);
    await soon();
    expect(office.log).toEqual(["paid, said ann@example.com"]);
  });

  it("for another person is refused after the decision", async () => {
    const link = await asked();
    const bobs = await desk().link("refund", { for: "bob@example.com" });
    await approve(link);
    expect((await approve(bobs)).status).toBe(409);
    expect(await desk().getApprovals()).toMatchObject([{ by: "ann@example.com" }]);
  });

  it("requires a form with an answer", async () => {
    const link = await asked();
    expect((await post(link, "")).status).toBe(400);
    expect((await post(link, "answer=yes")).status).toBe(400);
    expect((await post(link, "answer=approve", "text/plain")).status).toBe(415);
    expect((await post(link, `answer=approve&reason=${"x".repeat(2_001)}`)).status).toBe(400);
    expect(await statuses()).toEqual(["waiting"]);
  });

  it("expires at its own time, and with its question", async () => {
    const link = await asked({ timeout: "2 hours" });
    const short = await desk().link("refund", { timeout: "1 hour" });
    const long = await desk().link("refund", { timeout: "30 days" });
    await test.advance("61 min");
    expect((await approve(short)).status).toBe(410);
    expect(await statuses()).toEqual(["waiting"]);
    await test.advance("1 hour");
    for (const each of [link, long, short]) expect((await approve(each)).status).toBe(410);
    expect(await statuses()).toEqual(["expired"]);
  });

  it("that is forged, cut or changed reaches no agent", async () => {
    const token = tokenOf(await asked());
    const [claims = "", mac = ""] = token.split(".");
    const changed = (change: (claims: unknown[]) => void): string => {
      const read = JSON.parse(Buffer.from(claims, "base64url").toString()) as unknown[];
      change(read);
      return Buffer.from(JSON.stringify(read)).toString("base64url");
    };
    // Its secret is not this installation's.
    const approval = (await desk().getApprovals())[0]!;
    const foreign = makeApprovalLink({
      agent: agentId("Desk", "d"), id: approval.id, expiresAt: approval.expiresAt,
      nowMs: test.now.getTime(), options: { origin: ORIGIN, for: "eve" },
      env: { APPROVAL_SECRET: SECRET.toUpperCase() }, installation: "agents",
      hmacSha256: nodeOutgoing.hmacSha256,
    }); // prettier-ignore
    const forged = [
      "", ".", "..", claims, `${claims}.`, `.${mac}`, `${claims}.AAAA`, `${token}.${mac}`, `${token}A`,
      `${changed((c) => (c[1] = "Other"))}.${mac}`, // another class
      `${changed((c) => (c[2] = "e"))}.${mac}`, // another agent
      `${changed((c) => (c[3] = "x"))}.${mac}`, // another approval
      `${changed((c) => (c[4] = "eve"))}.${mac}`, // another person
      `${changed((c) => (c[5] = Number.MAX_SAFE_INTEGER))}.${mac}`, // another end
      tokenOf(foreign),
      "a".repeat(5_000),
    ]; // prettier-ignore
    const events = (await desk().events()).length;
    for (const each of forged) {
      expect((await approve(withToken(each))).status, each).toBe(403);
      expect((await test.fetch(withToken(each))).status, each).toBe(403);
    }
    expect(await statuses()).toEqual(["waiting"]);
    expect(await desk().events()).toHaveLength(events);
  });

  it("of one installation is invalid in another that has the same secret", async () => {
    const token = tokenOf(await asked());
    const { hmacSha256 } = nodeOutgoing;
    const read = (installation: string) =>
      readToken(token, { secret: SECRET, installation, hmacSha256 });
    expect(read("agents")).toMatchObject({
      by: "ann@example.com",
    });
    expect(read("staging")).toBeUndefined();
  });

  it("of a destroyed agent is invalid for the next agent of that name", async () => {
    const link = await asked();
    await desk().destroy();
    await desk().begin();
    await soon();
    expect((await approve(link)).status).toBe(410);
    expect(await statuses()).toEqual(["waiting"]);
  });

  it("of a workflow's run is invalid for the next run under that id", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    await desk().control("w1", "restart");
    await soon();
    expect(office.links).toHaveLength(2);
    expect((await approve(office.links[0]!)).status).toBe(409);
    expect(office.log).toEqual([]);
    expect((await approve(office.links[1]!)).status).toBe(200);
    await soon();
    expect(office.log).toEqual(["paid, said ann@example.com"]);
    const instance = test.agent(RefundWorkflow as never, "w1") as unknown as ReturnType<
      typeof desk
    >;
    expect((await instance.getApprovals()).map(({ status }) => status)).toEqual([
      "approved",
      "withdrawn",
    ]);
  });

  it("is never logged", async () => {
    const token = tokenOf(await asked());
    await test.crash(); // the agent can't be reached: the gateway says so
    const answer = approve(withToken(token));
    await test.advance("90 s");
    expect((await answer).status).toBe(503);
    expect(JSON.stringify(test.logs)).not.toContain(token.slice(0, 20));
    expect(test.logs.some(({ message }) => message.includes("approval"))).toBe(true);
  });
});

describe("without an unguessable secret", () => {
  it.each([{}, { APPROVAL_SECRET: "" }, { APPROVAL_SECRET: "short" }])(
    "%j makes no link, and the gateway accepts none",
    async (given) => {
      const token = tokenOf(await asked());
      await test.close();
      test = await testAgents({ module: refunds, env: given });
      await desk().begin();
      await soon();
      expect(office.log.at(-1)).toMatch(/^TypeError: approvalLink: APPROVAL_SECRET is/);
      expect((await approve(withToken(token))).status).toBe(503);
    },
  );
});

it("a link needs an origin and a person; anything else is an error that names it", async () => {
  await asked();
  await expect(desk().link("refund", { origin: "agents.example.com" })).rejects.toThrow(
    'not "agents.example.com"',
  );
  await expect(desk().link("refund", { origin: "javascript:alert(1)" })).rejects.toThrow("origin");
  await expect(desk().link("refund", { for: "" })).rejects.toThrow(
    "for of an approval's link must say who decides in one line of 1 to 256",
  );
  await expect(desk().link("refund", { timeout: "soon" })).rejects.toThrow("not a duration");
  await expect(desk().link("refund", { form: "ann" } as {})).rejects.toThrow(
    'unknown option "form"',
  );
  await expect(desk().link("another", {})).rejects.toThrow('no approval "another"');
});
