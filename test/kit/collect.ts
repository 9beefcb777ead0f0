/** All that a port lists, in its order. */
export async function collect<A>(items: AsyncIterable<A>): Promise<A[]> {
  const found: A[] = [];
  for await (const item of items) found.push(item);
  return found;
}
