/** When the console's page repeats a request, and when it gives one up. */
import { createElement } from "react";
import type { Root } from "react-dom/client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { installWindow } from "./page.ts";

interface Request {
  readonly url: string;
  readonly signal: AbortSignal;
  readonly answer: (value: unknown) => void;
}

const requests: Request[] = [];
let root: Root;
let element: HTMLElement;
let show: (path: string, version: number) => void;

beforeEach(async () => {
  installWindow();
  const { sessionStorage, location } = window;
  sessionStorage.setItem("agents_console_token", "token");
  vi.stubGlobal("sessionStorage", sessionStorage);
  vi.stubGlobal("location", location);
  vi.stubGlobal("fetch", (url: string, { signal }: { signal: AbortSignal }) =>
    new Promise<Response>((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      requests.push({ url, signal, answer: (value) => resolve(Response.json(value)) });
    }),
  ); // prettier-ignore
  requests.length = 0;
  const { useAsk } = await import("../../services/consolePage/hooks.ts");
  const { createRoot } = await import("react-dom/client");
  const Probe = ({ path, version }: { readonly path: string; readonly version: number }): string =>
    `${version} shows ${JSON.stringify(useAsk(path, version).value)}`;
  element = document.createElement("div");
  root = createRoot(element);
  show = (path, version) => root.render(createElement(Probe, { path, version }));
});
afterEach(() => {
  root.unmount();
  vi.unstubAllGlobals();
});

const requested = (count: number): Promise<unknown> =>
  pollUntil(`${count} requests`, () => requests.length === count, { intervalMs: 1 });
const shown = (text: string): Promise<unknown> =>
  pollUntil(text, () => element.textContent === text, { intervalMs: 1 });

test("news while an answer is awaited do not abort it, and the request is repeated after it", async () => {
  show("dead", 0);
  await requested(1);
  for (const version of [1, 2, 3]) {
    show("dead", version);
    await shown(`${version} shows undefined`);
  }
  expect(requests).toHaveLength(1);
  expect(requests[0]!.signal.aborted).toBe(false);
  requests[0]!.answer("first");
  await shown('3 shows "first"');
  await requested(2);
  requests[1]!.answer("second");
  await shown('3 shows "second"');
  show("overview", 3);
  await requested(3);
  expect(requests.map(({ url }) => url)).toEqual(["/api/dead", "/api/dead", "/api/overview"]);
});

test("another path aborts the request, and its answer is shown", async () => {
  show("dead", 0);
  await requested(1);
  show("overview", 5);
  await requested(2);
  expect(requests.map(({ url, signal }) => [url, signal.aborted])).toEqual([["/api/dead", true], ["/api/overview", false]]); // prettier-ignore
  requests[1]!.answer("over");
  await shown('5 shows "over"');
});

test("a timeline that is loading is not aborted by news, and then reads the turns that are new", async () => {
  const { Timeline } = await import("../../services/consolePage/timeline.tsx");
  const agent = { class: "A", name: "x" };
  const draw = (news: number, failed = false) =>
    root.render(createElement(Timeline, { agent, news, filter: { kind: "", text: "", failed } }));
  const turn = (seq: number) => ({ seq, time: "2026-01-01T00:00:00.000Z", cause: { kind: "rpc" } });
  const turns = () =>
    [...element.querySelectorAll("tbody a")].map(({ textContent }) => textContent);
  const drawn = (...seqs: string[]) =>
    pollUntil(`turns ${seqs.join()}`, () => String(turns()) === String(seqs) || { done: false, saw: element.textContent }); // prettier-ignore
  draw(0);
  await requested(1);
  draw(1);
  // A second one, after the effects of the first.
  await new Promise((resolve) => setTimeout(resolve, 0));
  draw(2);
  await new Promise((resolve) => setTimeout(resolve, 0));
  expect(requests[0]!.signal.aborted).toBe(false);
  requests[0]!.answer([turn(1)]);
  await drawn("1");
  await requested(2);
  expect(requests[1]!.url).toContain("from=2");
  requests[1]!.answer([turn(2)]);
  await drawn("2", "1");
  draw(2, true);
  await requested(3);
  draw(2, false);
  await requested(4);
  expect(requests[2]!.signal.aborted).toBe(true);
});
