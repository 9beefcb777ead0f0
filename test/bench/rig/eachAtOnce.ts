/**
 * The load of a bench that stores or asks for many things: so many of them under way, and no more.
 */

/**
 * Resolves when `f` has been done for each of `items`, begun in their order. Rejects with the first
 * that rejects.
 */
export async function eachAtOnce<A>(
  items: Iterable<A>,
  atOnce: number,
  f: (item: A) => Promise<void>,
): Promise<void> {
  const todo = items[Symbol.iterator]();
  const lane = async (): Promise<void> => {
    for (let next = todo.next(); next.done !== true; next = todo.next()) await f(next.value);
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
}
