/**
 * Makes the headers of the real request or response those of the lazy one in front of it. Code that
 * took `headers` before the real object existed goes on with its own object, so the real one
 * receives its changes whenever it is used.
 */
export function copyHeaders(from: Headers, to: Headers): void {
  for (const name of Array.from(to.keys())) to.delete(name);
  for (const [name, value] of from) to.append(name, value);
}
