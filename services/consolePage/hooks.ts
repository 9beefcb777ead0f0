/**
 * The data that views are drawn from: the place in the address bar, answers of the console, and
 * news. A repeated request never removes what is shown, and nothing here changes what the user
 * types.
 */
import { createContext, useCallback, useContext, useEffect, useRef, useState } from "react";
import { ask, currentToken, followNews, Refusal, watchToken, type News } from "./api.ts";

export interface Place {
  /** Decoded parts: `["agents", "RepoAgent", "octo/demo"]`. */
  readonly parts: ReadonlyArray<string>;
  readonly query: URLSearchParams;
  /** As in the address bar, without `#/`. */
  readonly text: string;
}

function placeNow(): Place {
  const text = location.hash.replace(/^#\/?/, "");
  const [path = "", query = ""] = text.split("?");
  const parts = path
    .split("/")
    .filter((part) => part !== "")
    .map(decodePart);
  return { parts, query: new URLSearchParams(query), text };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function usePlace(): Place {
  const [place, setPlace] = useState(placeNow);
  useEffect(() => {
    const moved = (): void => setPlace(placeNow());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

export const go = (path: string): void => void (location.hash = `#/${path}`);

/** As `go`, without a step in the browser's history: for places that change with each keystroke. */
export function goQuietly(path: string): void {
  history.replaceState(null, "", `#/${path}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

/** The pause before a failed request is repeated, and before news are subscribed to again. */
const RETRY_MS = 2_000;

export interface Asked<A> {
  readonly value: A | undefined;
  readonly error: string | undefined;
  readonly busy: boolean;
  readonly again: () => void;
}

/** The pause before a request is repeated, as a multiple of the time that its last answer took. */
const REST_FACTOR = 9;
/** The longest such pause: one answer that was slow by chance does not hold news for minutes. */
const REST_MAX_MS = 10_000;

/**
 * Delays the requests that news cause: after a slow answer the next one is made later, so that open
 * pages keep the console busy for a tenth of the time. Other requests do not wait.
 */
export class Rest {
  private last: { readonly path?: string; readonly version: number } = { version: 0 };
  private untilMs = 0;

  /** The request for `path` was answered. */
  answered(path: string, version: number, startMs: number): void {
    const endMs = performance.now();
    this.last = { path, version };
    this.untilMs = endMs + Math.min(REST_FACTOR * (endMs - startMs), REST_MAX_MS);
  }

  /** The wait before the next request. Zero for another path, and if a person asks again. */
  waitMs(path: string, version: number): number {
    const isNews = this.last.path === path && this.last.version !== version;
    return isNews ? Math.max(0, this.untilMs - performance.now()) : 0;
  }
}

/**
 * The answer to the request for `path`; undefined requests nothing. The request is repeated when
 * `version` changes, after a `Rest`, and the last answer stays until the next one arrives. News do
 * not abort a request: where they come more often than answers, none would ever arrive. A request
 * that fails is repeated after `RETRY_MS`, beside the last answer; one that is refused is not.
 */
export function useAsk<A>(path: string | undefined, version: number = 0): Asked<A> {
  const [answer, setAnswer] = useState<{ path?: string; value?: A; error?: string }>({});
  const [turn, setTurn] = useState(0);
  const [busy, setBusy] = useState(false);
  /** The version that was requested last. */
  const [asked, setAsked] = useState(version);
  if (!busy && asked !== version) setAsked(version);
  const [rest] = useState(() => new Rest());
  useEffect(() => {
    if (path === undefined) return undefined;
    const ended = new AbortController();
    const begin = (): void => {
      setBusy(true);
      const startMs = performance.now();
      ask<A>(path, { signal: ended.signal })
        .then(
          (value) => setAnswer({ path, value }),
          (error: unknown) => {
            if (ended.signal.aborted) return;
            const refused = error instanceof Refusal;
            if (!refused) timer = setTimeout(() => setTurn((n) => n + 1), RETRY_MS);
            setAnswer((last) => ({
              ...(last.path === path && !refused && { value: last.value }),
              path,
              error: messageOf(error),
            }));
          },
        )
        .finally(() => {
          if (ended.signal.aborted) return;
          rest.answered(path, asked, startMs);
          setBusy(false);
        });
    };
    let timer = setTimeout(begin, rest.waitMs(path, asked));
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [path, asked, turn]);
  const mine = answer.path === path ? answer : {};
  return {
    value: mine.value,
    error: mine.error,
    busy,
    again: useCallback(() => setTurn((n) => n + 1), []),
  };
}

/** Longer than the pause between two keys while typing. */
const TYPING_MS = 250;

/** The typed text once typing pauses, since each letter would otherwise be a request. */
export function useRested(typed: string): string {
  const [rested, setRested] = useState(typed);
  useEffect(() => {
    const timer = setTimeout(() => setRested(typed), TYPING_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return rested;
}

/**
 * Asks for the next page of the list that `question` shows, and calls `add` with it. One page at a
 * time: nothing is requested while one is pending. A page that arrives after the question has
 * changed is dropped.
 */
export function useNextPage<Page>(question: string, add: (page: Page) => void) {
  const [error, setError] = useState<string>();
  const running = useRef<AbortController>(undefined);
  const latest = useRef(add);
  latest.current = add;
  useEffect(
    () => () => {
      running.current?.abort();
      running.current = undefined;
      setError(undefined);
    },
    [question],
  );
  const next = async (path: string): Promise<void> => {
    if (running.current !== undefined) return;
    const mine = (running.current = new AbortController());
    try {
      const page = await ask<Page>(path, { signal: mine.signal });
      if (mine.signal.aborted) return;
      setError(undefined);
      latest.current(page);
    } catch (wrong) {
      if (!mine.signal.aborted) setError(messageOf(wrong));
    } finally {
      if (running.current === mine) running.current = undefined;
    }
  };
  return { next, error };
}

export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Passes each line of news to its subscribers. */
export const NewsContext = createContext<(watcher: (news: News) => void) => () => void>(
  () => () => undefined,
);

/** The least time between two requests for a list: a busy installation has news all the time. */
const AGAIN_MS = 1_000;

/** A number that grows with news for which `concerns` is true, at most once a second. */
export function useNewsCount(concerns: (news: News) => boolean): number {
  const watch = useContext(NewsContext);
  const [count, setCount] = useState(0);
  const check = useRef(concerns);
  check.current = concerns;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let lastMs = -Infinity;
    const grow = (): void => {
      timer = undefined;
      lastMs = performance.now();
      setCount((n) => n + 1);
    };
    const stop = watch((news) => {
      if (!check.current(news) || timer !== undefined) return;
      timer = setTimeout(grow, Math.max(0, lastMs + AGAIN_MS - performance.now()));
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [watch]);
  return count;
}

/** Follows the news of `path`. `live`: the connection is open, and the console's broker answers. */
export function useNewsStream(path: string) {
  const [live, setLive] = useState(false);
  const watchers = useRef(new Set<(news: News) => void>());
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    let lost = false;
    const pass = (news: News): void => {
      // News was missed: every part counts as changed.
      const told = lost
        ? { ...news, agents: [], deliveries: [], connections: true as const, overview: {} }
        : news;
      lost = false;
      for (const watcher of watchers.current) watcher(told);
    };
    const seen = (): void => {
      if (!document.hidden && lost) pass({});
    };
    document.addEventListener("visibilitychange", seen, { signal });
    const run = async (): Promise<void> => {
      while (!signal.aborted) {
        const tell = (news: News): void => {
          setLive(news.unreachable !== true);
          // A hidden tab asks for nothing until it is visible.
          if (document.hidden || news.unreachable === true) lost = true;
          else pass(news);
        };
        try {
          await followNews(path, tell, signal);
        } catch {
          // `live` reports it.
        }
        if (signal.aborted) return;
        setLive(false);
        lost = true;
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    };
    void run();
    return () => ended.abort();
  }, [path]);
  const watch = useCallback((watcher: (news: News) => void) => {
    watchers.current.add(watcher);
    return () => void watchers.current.delete(watcher);
  }, []);
  return { live, watch };
}

export function useCurrentToken(): string | null {
  const [token, setToken] = useState(currentToken);
  useEffect(() => watchToken(() => setToken(currentToken())), []);
  return token;
}
