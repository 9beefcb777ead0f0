/**
 * An event's head as hosts write it, with most of what there can be in one: for tests that change
 * it.
 */
export const CAUSE = {
  kind: "webhook",
  id: "github:1",
  seq: 7,
  redrive: 3,
  attempt: 1,
  time: 1_700_000_000_000,
  provider: "github",
  route: "/webhooks/github",
  verified: false,
  type: "push",
  method: "POST",
  url: "http://localhost/webhooks/github",
  headers: { "x-github-event": "push" },
  entity: "Acme/Site",
  delivery: "mwvbsxl7-70lqa00",
  traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  body: "{}",
} as const;
export const TURN = {
  cause: CAUSE,
  state: { splice: [1, 2, "text"] },
  sql: ["INSERT INTO marks VALUES (?)"],
  done: ["github:1"],
  error: "it failed",
  steps: [
    { key: "1:charge", result: { id: "ch_1" } },
    { key: "2:charge" },
    {
      key: "1:POST example.com/",
      result: { status: 200, headers: [] },
      request: { method: "POST", url: "https://example.com/", headers: {}, body: "{}" },
    },
  ],
  again: [{ key: "3:charge", error: "Error: no" }, { key: "4:charge" }],
  undone: true,
  restored: { seq: 3, time: 1_700_000_000_000 },
} as const;
export const USUAL = {
  id: "event-1",
  agent: ["Ledger", "a"],
  kind: "turns",
  host: "host-1",
  epoch: 3,
  time: 1_700_000_000_000,
  turns: [TURN],
  after: 6,
  pages: 5,
  schedules: { put: [{ id: "s" }], del: ["t"] },
  queue: { put: [1, null] },
  part: true,
} as const;
