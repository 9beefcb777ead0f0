/**
 * Replaces the headers of the real request or response by those of the lazy one in front of it.
 * Code that read `headers` before the real object existed keeps the lazy one's object, so changes
 * to that object are copied each time the real one is used.
 */
export function copyHeaders(from: Headers, to: Headers): void {
  for (const name of Array.from(to.keys())) to.delete(name);
  for (const [name, value] of from) to.append(name, value);
}
