/** What differs from the one before it: a state that is told once more is no change. */
export const withoutRepeats = <A>(items: ReadonlyArray<A>): A[] =>
  items.filter((item, n) => n === 0 || JSON.stringify(item) !== JSON.stringify(items[n - 1]));
