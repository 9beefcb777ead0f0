/** Approvals in workflows and fibers: decided once, whatever dies, in virtual time. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as refunds from "./refunds.ts";
import { Desk, office, PlainWorkflow, RefundWorkflow } from "./refunds.ts";

const SECRET = "a secret of at least 32 characters";
const DAY_MS = 86_400_000;
let test: TestAgents;
beforeEach(async () => {
  office.reset();
  test = await testAgents({ module: refunds, env: { APPROVAL_SECRET: SECRET } });
});
afterEach(() => test.close());

const desk = () => test.agent(Desk, "d");
const instance = (id = "w1", workflow: object = RefundWorkflow) =>
  test.agent(workflow as never, id) as unknown as ReturnType<typeof desk>;
const soon = () => test.advance("1 s");
const YES = { approved: true, by: "bob" };
const NO = { approved: false, by: "bob", reason: "too dear" };
async function crashed(): Promise<void> {
  await test.crash();
  await test.revive();
  await soon();
}

describe.each([
  [
    "a workflow",
    () => desk().order("RefundWorkflow"),
    (order: object) => desk().order("RefundWorkflow", order),
    () => instance(),
  ],
  ["a fiber", () => desk().begin(), (order: object) => desk().begin(order), desk],
] as const)("%s", (_who, ask, askFor, asker) => {
  it("asks, waits, and continues with who approved and when", async () => {
    await ask();
    await soon();
    expect(office.log).toEqual([]);
    const [asked] = await asker().getApprovals();
    expect(asked).toMatchObject({
      name: "refund",
      prompt: "Refund 40 € to Ann?",
      status: "waiting",
      by: null,
      decidedAt: null,
    });
    expect(asked!.expiresAt - asked!.askedAt).toBe(DAY_MS);
    const decided = await asker().decideApproval("refund", YES);
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
    expect(decided).toMatchObject({ id: asked!.id, status: "approved", by: "bob" });
    expect(decided.decidedAt).toBeGreaterThanOrEqual(asked!.askedAt);
    expect(await asker().getApprovals({ status: "waiting" })).toEqual([]);
  });

  it.each(["", "x".repeat(257)])(
    "is not asked as %j, and the error names the call",
    async (name) => {
      await askFor({ called: name });
      await soon();
      expect(office.log).toEqual([
        "TypeError: approval(name, …): the name must be text of 1 to 256 characters",
      ]);
      expect(await asker().getApprovals()).toEqual([]);
    },
  );

  it("records who decided and when in its history", async () => {
    await ask();
    await soon();
    await asker().decideApproval("refund", { ...YES, by: "o'hara" });
    const { decidedAt } = (await asker().getApprovals())[0]!;
    const sql = (await asker().events()).flatMap((event) => event.sql ?? []);
    expect(sql.find((text) => text.includes("decided_by ="))).toContain(
      `status = 'approved', decided_by = 'o''hara', decided_at = ${decidedAt}`,
    );
    expect((await asker().getApprovals())[0]!.by).toBe("o'hara");
  });

  it("receives a refusal with its reason", async () => {
    await ask();
    await soon();
    await asker().decideApproval("refund", NO);
    await soon();
    expect(office.log).toEqual([
      'ApprovalRejected: approval "refund" was rejected by bob: too dear',
    ]);
  });

  it("receives a timeout, after which a decision is refused", async () => {
    await askFor({ timeout: "2 hours" });
    await soon();
    const { expiresAt } = (await asker().getApprovals())[0]!;
    await test.advance("119 min");
    expect(office.log).toEqual([]);
    await test.advance("2 min");
    expect(office.log).toEqual([
      `ApprovalTimedOut: approval "refund": nobody decided until ${new Date(expiresAt).toISOString()}`,
    ]);
    await expect(asker().decideApproval("refund", YES)).rejects.toThrow(
      'approval "refund" can no longer be decided: it is expired',
    );
    expect(await asker().getApprovals()).toMatchObject([{ status: "expired", by: null }]);
  });

  it("is decided once: repeating the answer changes nothing, a different answer is refused", async () => {
    await ask();
    await soon();
    const first = await asker().decideApproval("refund", YES);
    await test.advance("5 s");
    expect(await asker().decideApproval(first.id, YES)).toEqual(first);
    await expect(asker().decideApproval("refund", NO)).rejects.toThrow("it is approved by bob");
    await expect(asker().decideApproval(first.id, { ...YES, by: "eve" })).rejects.toThrow(
      "it is approved by bob",
    );
    expect(await asker().getApprovals()).toEqual([first]);
    await expect(asker().getApprovals({ state: "waiting" } as never)).rejects.toThrow(
      'getApprovals: unknown option "state"; the options are id, name, status',
    );
    expect(office.log).toEqual(["paid, said bob"]);
  });

  it("receives the answer that came while its host was dead, and asks people only once", async () => {
    await ask();
    await soon();
    await crashed();
    await asker().decideApproval("refund", YES);
    await test.crash();
    await test.revive();
    await test.advance("2 min"); // the alarm of fibers
    expect(office.log.filter((line) => line !== "recovered")).toEqual(["paid, said bob"]);
    expect(office.links).toHaveLength(1);
    expect(await asker().getApprovals()).toMatchObject([{ status: "approved" }]);
  });

  it("notifies people of the same question again if its host died before that was stored", async () => {
    office.onNotify = () => new Promise(() => undefined);
    await ask();
    await soon();
    const [asked] = await asker().getApprovals();
    office.onNotify = undefined;
    await test.crash();
    await test.revive();
    await test.advance("2 min");
    expect(office.links).toHaveLength(1);
    expect(await asker().getApprovals()).toMatchObject([{ id: asked!.id, status: "waiting" }]);
  });

  it("waits no longer than its timeout, however often its host dies", async () => {
    await askFor({ timeout: "2 hours" });
    await test.advance("1 hour");
    await crashed();
    await test.advance("61 min");
    expect(office.log.filter((line) => line !== "recovered")).toHaveLength(1);
    expect(office.log.at(-1)).toMatch(/^ApprovalTimedOut/);
  });

  it("accepts only a decision that has an answer and an author", async () => {
    await ask();
    await soon();
    const decide = (decision: object) => asker().decideApproval("refund", decision as never);
    await expect(decide({ by: "bob" })).rejects.toThrow("a decision says what is decided");
    await expect(decide({ approved: "yes", by: "bob" })).rejects.toThrow("what is decided");
    await expect(decide({ approved: true })).rejects.toThrow("a decision must say who decides");
    await expect(decide({ approved: true, by: "" })).rejects.toThrow(
      "by must say who decides in one line of 1 to 256",
    );
    await expect(decide({ approved: true, by: "a\nb" })).rejects.toThrow("one line of 1 to 256");
    await expect(decide(null as never)).rejects.toThrow('decideApproval("refund", …): the options');
    await expect(decide({ ...YES, who: "bob" })).rejects.toThrow('unknown option "who"');
    await expect(decide({ ...YES, reason: "x".repeat(2_001) })).rejects.toThrow("at most 2000");
    await expect(asker().decideApproval("another", YES)).rejects.toThrow(
      'has no approval "another"',
    );
    expect(await asker().getApprovals()).toMatchObject([{ status: "waiting" }]);
  });
});

describe("a workflow", () => {
  it("that is paused keeps the answer until it continues", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    await desk().control("w1", "pause");
    await instance().decideApproval("refund", YES);
    await test.advance("2 days");
    expect(office.log).toEqual([]);
    await desk().control("w1", "resume");
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
  });

  it("that is restarted asks again: an answer to the old question is refused", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    const [old] = await instance().getApprovals();
    await desk().control("w1", "restart");
    await soon();
    const [asked] = await instance().getApprovals();
    expect(asked!.id).not.toBe(old!.id);
    await expect(instance().decideApproval(old!.id, YES)).rejects.toThrow("it is withdrawn");
    await instance().decideApproval(asked!.id, YES);
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
  });

  it("that has ended and is restarted does not use the earlier answer", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    await instance().decideApproval("refund", YES);
    await soon();
    await desk().control("w1", "restart");
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
    expect(await instance().getApprovals()).toMatchObject([
      { status: "waiting", by: null },
      { status: "approved", by: "bob" },
    ]);
  });

  it("that is restarted and asks later has no open question in between", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    office.sleeps = true;
    await desk().control("w1", "restart");
    await soon();
    await expect(instance().decideApproval("refund", YES)).rejects.toThrow("it is withdrawn");
  });

  it("that is terminated has no open question", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    await desk().control("w1", "terminate");
    await expect(instance().decideApproval("refund", YES)).rejects.toThrow("it is withdrawn");
    expect(await instance().getApprovals()).toMatchObject([{ status: "withdrawn" }]);
  });

  it("is answered by its agent, by name, in the same commit as the agent's turn", async () => {
    await desk().order("RefundWorkflow");
    await soon();
    await desk().answer("w1", true, "refund", "bob");
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
    expect(await instance().getApprovals()).toMatchObject([
      { status: "approved", by: "bob", metadata: 7 },
    ]);
  });

  it("ignores answers to another question and to the previous one", async () => {
    await desk().order("RefundWorkflow", { times: 2 });
    await soon();
    await desk().answer("w1", true, "another", "bob");
    for (const yes of [true, false])
      await expect(
        desk().answer("w1", yes, undefined, "bob", { aproval: "refund" }),
      ).rejects.toThrow(
        `${yes ? "approve" : "reject"}Workflow: unknown option "aproval"; the options are approval, by`,
      );
    await desk().answer("w1", true); // what waits has a name
    await soon();
    expect(office.log).toEqual([]);
    // Sent twice, as by somebody who clicks twice.
    await Promise.all([
      desk().answer("w1", true, "refund", "bob"),
      desk().answer("w1", true, "refund", "bob"),
    ]);
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
    expect(await instance().getApprovals()).toMatchObject([
      { status: "waiting" },
      { status: "approved" },
    ]);
  });

  it("that calls waitForApproval is listed, and decided like any other", async () => {
    await desk().order("PlainWorkflow");
    await soon();
    const asker = instance("w1", PlainWorkflow);
    expect(await asker.getApprovals()).toMatchObject([
      { name: "wait-for-approval", prompt: null, status: "waiting" },
    ]);
    await asker.decideApproval("wait-for-approval", { ...YES, metadata: { ok: 1 } });
    await soon();
    expect(office.log).toEqual(['paid, with {"ok":1}']);
  });

  it("that calls waitForApproval is listed when its agent approved, before or after it asked", async () => {
    await desk().order("PlainWorkflow");
    await desk().answer("w1", true, undefined, "bob");
    await soon();
    expect(office.log).toEqual(["paid, with 7"]);
    await desk().order("PlainWorkflow", {}, "w2");
    await soon();
    await desk().answer("w2", true);
    await soon();
    expect(office.log).toHaveLength(2);
    const lists = ["w1", "w2"].map((id) => instance(id, PlainWorkflow).getApprovals());
    expect(await Promise.all(lists)).toMatchObject([
      [{ status: "approved", by: "bob" }],
      [{ status: "approved", by: null }],
    ]);
  });
});

describe("a fiber", () => {
  it("that is cancelled has no open question", async () => {
    await desk().begin();
    await soon();
    await desk().cancel("f1");
    await soon();
    await expect(desk().decideApproval("refund", YES)).rejects.toThrow("it is withdrawn");
  });

  it("with the same name as another has its own question, whatever their ids", async () => {
    await desk().begin({ prompt: "one?" }, "f");
    await desk().begin({ prompt: "two?" }, "f refund");
    await soon();
    const asked = await desk().getApprovals();
    expect(asked.map(({ prompt }) => prompt)).toEqual(["two?", "one?"]);
    await desk().decideApproval(asked[1]!.id, YES);
    await soon();
    expect(office.log).toEqual(["paid, said bob"]);
    expect(await desk().getApprovals({ status: "waiting" })).toMatchObject([{ prompt: "two?" }]);
  });

  it("that asks under the same name again gets the earlier answer", async () => {
    await desk().begin({ times: 3 });
    await soon();
    await desk().decideApproval("refund", YES);
    await soon();
    expect(office.log).toEqual(Array(3).fill("paid, said bob"));
    expect(office.links).toHaveLength(1);
  });
});

it("approval is available in workflows and fibers only; elsewhere it is an error", async () => {
  const response = await test.fetch("/agents/desk/d");
  expect(await response.json()).toBe(
    'approval "now": a turn of this kind (request) can\'t wait for people. Ask in a workflow (runWorkflow) or in a fiber (startFiber)',
  );
});
