/**
 * The place of a client in the kept broadcasts of its agent (`protocol.md` §2.8), by which it
 * accepts each once and in order over any number of connections. The place is a parameter of each
 * connection's URL, unless the app uses a parameter of that name.
 */

/** How a numbered message relates to the place. */
type Step = "next" | "known" | "gap";

const PARAMETER = "since";

export class KeptPlace {
  #life: string | undefined;
  /** Undefined before the first connection. */
  #last: number | undefined;

  /** The place for the next connection's URL; empty for the first. */
  get text(): string {
    if (this.#last === undefined) return "";
    return this.#life === undefined ? "0" : `${this.#life}.${this.#last}`;
  }

  /** Takes over the place of another client. */
  copy(other: KeptPlace): void {
    this.#life = other.#life;
    this.#last = other.#last;
  }

  /** Called when a connection opens. From then on, the client receives every kept broadcast. */
  opened(): void {
    this.#last ??= 0;
  }

  /** Classifies a received message by its place. */
  step(place: string): Step {
    const [life, seq] = read(place);
    const last = life === this.#life ? (this.#last ?? 0) : 0;
    if (life === this.#life && seq <= last) return "known";
    return seq === last + 1 ? "next" : "gap";
  }

  /** Records a message as received. */
  take(place: string): void {
    [this.#life, this.#last] = read(place);
  }
}

function read(place: string): [life: string, seq: number] {
  const at = place.lastIndexOf(".");
  return [place.slice(0, at), Number(place.slice(at + 1))];
}

type Query = Readonly<Record<string, string | null | undefined>>;
/** The query in the forms that PartySocket accepts. */
export type QueryOption = Query | (() => Query | Promise<Query>) | undefined;

/** Adds the place to the query, unless the app has a parameter of that name. */
export function withPlace(query: QueryOption, place: KeptPlace): QueryOption {
  const add = (own: Query): Query =>
    Object.hasOwn(own, PARAMETER) ? own : { ...own, [PARAMETER]: place.text };
  return typeof query === "function" ? async () => add(await query()) : add(query ?? {});
}

/** The URL with the current place. */
export function placed(url: string, place: KeptPlace): string {
  return url.replace(PLACE, `$1${PARAMETER}=${place.text}`);
}

/** The URL without a place, for requests and comparisons. */
export const unplaced = (url: string): string => url.replace(PLACE, "").replace(/\?$/, "");

/** Matches what `withPlace` writes: the last parameter, with a place. It spares the app's own. */
const PLACE = /([?&])since=(?:\d+|[\w-]+\.\d+)?$/;
