/**
 * Makes one thing for all who ask for it: a connection that the first request opens, a start that
 * calls share. One that failed is made again for the next who asks.
 */

interface Once<A> {
  readonly get: () => Promise<A>;
  /** What was made last and has not failed. */
  readonly made: Promise<A> | undefined;
}

export function once<A>(make: () => Promise<A>): Once<A> {
  let made: Promise<A> | undefined;
  return {
    get: () =>
      (made ??= make().catch((error: unknown) => {
        made = undefined;
        throw error;
      })),
    get made() {
      return made;
    },
  };
}
