/**
 * The promise behind `AgentClient.ready`, with the function that resolves it. A client makes one
 * for each connection, and passes it on when a React hook replaces the client.
 */
interface Ready {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}

export function makeReady(): Ready {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}
