/** For objects whose optional fields are absent, not undefined, and are not made on a hot path. */

type Optional<A> = { [K in keyof A]: undefined extends A[K] ? K : never }[keyof A];
type Defined<A> = Omit<A, Optional<A>> & { [K in Optional<A>]?: Exclude<A[K], undefined> };

/** The object without its undefined fields. */
export const defined = <A extends object>(fields: A): Defined<A> =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined),
  ) as Defined<A>;
