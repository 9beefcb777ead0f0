/**
 * Where a client is in the kept broadcasts of its agent (`protocol.md` §2.8): each is taken once
 * and in order, over any number of connections. The place is a parameter of each connection's URL,
 * unless the app has one of that name.
 */

/** What a numbered message means. */
export type Step = "next" | "known" | "gap";

const PARAMETER = "since";

export class KeptPlace {
  #life: string | undefined;
  /** Undefined: never connected. */
  #last: number | undefined;

  /** As the next connection's URL has it: empty for the first. */
  get text(): string {
    if (this.#last === undefined) return "";
    return this.#life === undefined ? "0" : `${this.#life}.${this.#last}`;
  }

  /** What it has, this client has. */
  copy(other: KeptPlace): void {
    this.#life = other.#life;
    this.#last = other.#last;
  }

  /** A connection is open: what is kept from now on is this client's to receive. */
  opened(): void {
    this.#last ??= 0;
  }

  /** A message with this place has come. */
  step(place: string): Step {
    const [life, seq] = read(place);
    const last = life === this.#life ? (this.#last ?? 0) : 0;
    if (life === this.#life && seq <= last) return "known";
    return seq === last + 1 ? "next" : "gap";
  }

  /** It is here now. */
  take(place: string): void {
    [this.#life, this.#last] = read(place);
  }
}

function read(place: string): [life: string, seq: number] {
  const at = place.lastIndexOf(".");
  return [place.slice(0, at), Number(place.slice(at + 1))];
}

type Query = Readonly<Record<string, string | null | undefined>>;
/** As PartySocket takes it. */
export type QueryOption = Query | (() => Query | Promise<Query>) | undefined;

/** The query with the place. Unchanged where the app has a parameter of that name. */
export function withPlace(query: QueryOption, place: KeptPlace): QueryOption {
  const add = (own: Query): Query =>
    Object.hasOwn(own, PARAMETER) ? own : { ...own, [PARAMETER]: place.text };
  return typeof query === "function" ? async () => add(await query()) : add(query ?? {});
}

/** The URL with the place as it is now. */
export function placed(url: string, place: KeptPlace): string {
  return url.replace(PLACE, `$1${PARAMETER}=${place.text}`);
}

/** The URL without a place: for requests, and to compare. */
export const unplaced = (url: string): string => url.replace(PLACE, "").replace(/\?$/, "");

/** As `withPlace` writes it: last, and a place. A parameter of the app's own is left alone. */
const PLACE = /([?&])since=(?:\d+|[\w-]+\.\d+)?$/;
