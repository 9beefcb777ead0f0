/**
 * The part of the list of agents that is shown: consecutive pages, each of which is requested again
 * when one of its agents has news. `agents.tsx` draws it.
 *
 * 1. An answer replaces the shown agents from the place where it begins to its own last agent. No
 *    agent is shown twice, and none is left out between two pages, however they move.
 * 2. One request at a time. After its answer, news waits for nine times as long as the request
 *    took, so that an open page keeps the console busy for a tenth of the time at most. A person's
 *    request for more does not wait.
 * 3. If an agent has news while its page is being requested, the page is requested again.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import type { ListedAgent } from "../cli/commands/list.ts";
import type { AgentName, News } from "./api.ts";

/** Some screens; each agent costs the broker a look-up. */
export const PAGE = 100;
/** Rule 2. */
const REST_FACTOR = 9;
/** The least time between two requests for news: a busy installation has news all the time. */
const AGAIN_MS = 1_000;

interface AgentPagesParts {
  /** As typed; empty: all. */
  readonly filter: { readonly class: string; readonly text: string };
  /** Resolves to the first `PAGE` agents after one. `fresh`: their state as of now. */
  readonly ask: (
    wanted: { readonly after: AgentName | undefined; readonly fresh: boolean },
    signal: AbortSignal,
  ) => Promise<ReadonlyArray<ListedAgent>>;
  /** Called when the list has changed. */
  readonly onChange: () => void;
  readonly time: Pick<TimeShape, "monotonicMs" | "after">;
}

export class AgentPages {
  /** Undefined until the first answer. */
  list: ReadonlyArray<ListedAgent> | undefined;
  /** The list ends with the agents shown. */
  isAll = false;
  /** Why the last request failed. */
  error: string | undefined;
  private readonly closed = new AbortController();
  /** The places in the list that have news, the longest waiting first. */
  private readonly stale = new Map<string, AgentName>();
  /** True at first: the first page is wanted. */
  private wantsMore = true;
  private asking: "nothing" | "again" | "more" = "nothing";
  private restedMs = 0;
  private cancelNext = (): void => undefined;

  constructor(private readonly parts: AgentPagesParts) {
    this.askNext();
  }

  /** The next page. */
  readonly more = (): void => {
    this.wantsMore = true;
    this.askNext();
  };

  hear({ agents }: News): void {
    if (agents === undefined) return;
    const { list } = this;
    // The first answer is still to come, or was an error.
    if (list === undefined) this.stale.set(keyOf(FIRST), FIRST);
    else if (agents.length === 0)
      for (let at = 0; at < Math.max(1, list.length); at += PAGE) this.mark(list[at] ?? FIRST);
    else
      for (const [className, name] of agents)
        if (this.mayBeListed(className, name)) this.mark({ class: className, name });
    this.askNext();
  }

  close(): void {
    this.cancelNext();
    this.closed.abort();
  }

  private mayBeListed(className: string, name: string): boolean {
    const { class: wanted, text } = this.parts.filter;
    // The filter finds a class by other spellings, too. The list shows which class that is.
    const listed = wanted === "" ? className : (this.list?.[0]?.class ?? className);
    return className === listed && name.toLowerCase().includes(text.toLowerCase());
  }

  private mark(agent: AgentName): void {
    const list = this.list ?? [];
    const shown = list[placeOf(list, agent)];
    // The next page is not shown, unless it is being requested (rule 3).
    if (shown === undefined && !this.isAll && this.asking !== "more") return;
    const place = shown ?? agent;
    this.stale.set(keyOf(place), place);
  }

  private askNext(): void {
    if (this.asking !== "nothing" || this.closed.signal.aborted) return;
    this.cancelNext();
    if (!this.wantsMore && this.stale.size === 0) return;
    const isWish = this.wantsMore && this.list !== undefined;
    const { time } = this.parts;
    const waitMs = isWish ? 0 : Math.max(0, this.restedMs - time.monotonicMs());
    this.cancelNext = time.after(waitMs, () => void this.askPage());
  }

  private async askPage(): Promise<void> {
    const list = this.list ?? [];
    const isMore = this.wantsMore;
    const [oldest = FIRST] = this.stale.values();
    const start = isMore ? list.length : Math.floor(placeOf(list, oldest) / PAGE) * PAGE;
    const after = list[start - 1];
    const end = list[start + PAGE - 1];
    // Rule 3: marks from now on are newer than the request.
    const answered = this.unmark((place) => isIn(place, after, end));
    this.wantsMore = false;
    this.asking = isMore ? "more" : "again";
    const { time } = this.parts;
    const startMs = time.monotonicMs();
    try {
      const wanted = { after, fresh: !isMore };
      const page = await this.parts.ask(wanted, this.closed.signal);
      this.error = undefined;
      this.show(after, page);
      const last = page.length < PAGE ? undefined : page.at(-1);
      // New agents have moved the end of the requested page into the next one.
      if (end !== undefined && !isIn(end, after, last)) this.mark(end);
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
      // They are requested again with the next news.
      for (const place of answered) this.mark(place);
    }
    const endMs = time.monotonicMs();
    this.restedMs = Math.max(startMs + AGAIN_MS, endMs + REST_FACTOR * (endMs - startMs));
    this.asking = "nothing";
    const last = this.list?.at(-1);
    // Places after the shown agents need no request.
    if (last !== undefined && !this.isAll) this.unmark((place) => order(place, last) > 0);
    if (this.closed.signal.aborted) return;
    this.parts.onChange();
    if (this.error === undefined) this.askNext();
  }

  /** Rule 1. */
  private show(after: AgentName | undefined, page: ReadonlyArray<ListedAgent>): void {
    const list = this.list ?? [];
    const last = page.length < PAGE ? undefined : page.at(-1);
    const before = after === undefined ? [] : list.slice(0, placeOf(list, after) + 1);
    const rest = last === undefined ? [] : list.filter((agent) => order(agent, last) > 0);
    this.list = [...before, ...page, ...rest];
    if (rest.length === 0) this.isAll = last === undefined;
  }

  private unmark(isMeant: (place: AgentName) => boolean): ReadonlyArray<AgentName> {
    const meant = [...this.stale.values()].filter(isMeant);
    for (const place of meant) this.stale.delete(keyOf(place));
    return meant;
  }
}

/** Before all agents. */
const FIRST: AgentName = { class: "", name: "" };

const keyOf = ({ class: className, name }: AgentName): string => `${className}/${name}`;

/** In the order of the console's list. */
function order(a: AgentName, b: AgentName): number {
  if (a.class !== b.class) return a.class < b.class ? -1 : 1;
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** Undefined `after`: from the first; undefined `last`: to the end. */
const isIn = (
  place: AgentName,
  after: AgentName | undefined,
  last: AgentName | undefined,
): boolean =>
  (after === undefined || order(place, after) > 0) &&
  (last === undefined || order(place, last) <= 0);

/** The index of the first agent that is not before the place. */
function placeOf(list: ReadonlyArray<AgentName>, place: AgentName): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (order(list[middle]!, place) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
