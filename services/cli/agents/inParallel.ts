/** Processes several items of a list at once, in order, for long commands and benches. */

/** Resolves when all are done. Rejects with the first failure, once all started work has ended. */
export async function inParallel<A>(
  items: Iterable<A>,
  atOnce: number,
  work: (item: A) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  let failure: { readonly error: unknown } | undefined;
  const worker = async (): Promise<void> => {
    while (failure === undefined) {
      const { value, done } = rest.next();
      if (done === true) return;
      try {
        await work(value);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  if (failure !== undefined) throw failure.error;
}
