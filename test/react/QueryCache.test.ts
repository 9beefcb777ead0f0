/** What the cache of `query` functions keeps. */
import { afterEach, expect, test, vi } from "vitest";
import { QueryCache } from "../../services/react/QueryCache.ts";

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("a new query removes what has expired, and nothing else", async () => {
  vi.useFakeTimers();
  const cache = new QueryCache();
  const source = (key: string, ttlMs: number) => ({ key, ttlMs, fetch: () => ({ token: key }) });
  await cache.get(source("short", 1_000)).promise;
  const long = cache.get(source("long", 60_000));
  await long.promise;
  vi.advanceTimersByTime(2_000);
  const removed = vi.spyOn(Map.prototype, "delete");
  const running = cache.get({ ...source("running", 0), fetch: () => new Promise(() => undefined) });
  expect(removed.mock.calls).toEqual([["short"]]);
  expect(cache.get(source("long", 60_000))).toBe(long);
  expect(cache.get(source("running", 0))).toBe(running);
});
