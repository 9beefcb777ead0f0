/**
 * Sends everything from one run of code as one message: a host renews all of its leases at once,
 * and a message to another process costs more than its content.
 */
export function inBatches<A>(send: (batch: ReadonlyArray<A>) => void): (item: A) => void {
  let batch: A[] = [];
  const flush = (): void => {
    const full = batch;
    batch = [];
    send(full);
  };
  return (item) => {
    if (batch.push(item) === 1) queueMicrotask(flush);
  };
}
