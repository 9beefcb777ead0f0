/**
 * What is under way, by numbers that it assigns: ids for answers that come back with them. A
 * number is never given twice. It takes memory for twice as many as were ever in it at once.
 *
 * A hot path, and no `Map` for the reason that `LinkedList` names. A number's place is its
 * remainder; a number whose place is taken is left out, so nothing has to move but when the table
 * grows.
 */

/** Places in an empty table. As every later count, a power of two. */
const PLACES_MIN = 64;

export class NumberedTable<A extends object> {
  private values = places<A | undefined>(PLACES_MIN, undefined);
  /** By place: the number whose value is there. */
  private numbers = places(PLACES_MIN, 0);
  private last = 0;
  private count = 0;

  get size(): number {
    return this.count;
  }

  /** A number for `set`, from 1 on, greater than all before it. */
  next(): number {
    // Half of the places are free, so a free one is near.
    if (this.count * 2 >= this.values.length) this.grow();
    while (this.values[++this.last & (this.values.length - 1)] !== undefined);
    return this.last;
  }

  /** Once for a number, as it came from `next`. */
  set(number: number, value: A): void {
    const place = number & (this.values.length - 1);
    this.values[place] = value;
    this.numbers[place] = number;
    this.count++;
  }

  /** Undefined: it was taken out, or never was. */
  get(number: number): A | undefined {
    const place = number & (this.values.length - 1);
    return this.numbers[place] === number ? this.values[place] : undefined;
  }

  /** Takes it out. */
  take(number: number): A | undefined {
    const value = this.get(number);
    if (value === undefined) return undefined;
    this.values[number & (this.values.length - 1)] = undefined;
    this.count--;
    return value;
  }

  /** All that are in it now, in the order of their numbers. */
  entries(): Array<readonly [number, A]> {
    const found: Array<readonly [number, A]> = [];
    for (const [place, value] of this.values.entries())
      if (value !== undefined) found.push([this.numbers[place]!, value]);
    return found.toSorted(([a], [b]) => a - b);
  }

  /** Numbers whose remainders differ have different ones by twice as much, too. */
  private grow(): void {
    const entries = this.entries();
    const count = this.values.length * 2;
    this.values = places<A | undefined>(count, undefined);
    this.numbers = places(count, 0);
    this.count = 0;
    for (const [number, value] of entries) this.set(number, value);
  }
}

/** A number within an id. Not in base 10: V8 keeps the last thousands of numbers made text so. */
export const numberText = (number: number): string => number.toString(36);
/** NaN for a text that is not a number. */
export const numberOf = (text: string): number => parseInt(text, 36);

const places = <A>(count: number, empty: A): A[] => Array.from({ length: count }, () => empty);
