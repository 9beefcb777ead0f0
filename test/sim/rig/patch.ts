/** Replaces a method for a time: planted bugs and full disks get into the product so. */

/** Puts `make(plain)` there, as an own property; the returned function takes it away. */
export function patch<T extends object, K extends keyof T>(
  on: T,
  key: K,
  make: (plain: T[K]) => T[K],
): () => void {
  const before = Object.getOwnPropertyDescriptor(on, key);
  Object.defineProperty(on, key, { value: make(on[key]), configurable: true, writable: true });
  return () => {
    if (before === undefined) delete on[key];
    else Object.defineProperty(on, key, before);
  };
}
