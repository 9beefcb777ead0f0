/**
 * Lets a class stand in for one of the platform's: `instanceof` holds, and every member that the
 * class does not define is that of the real object behind it, which is made then.
 */
type Real = object;

/** `real` returns the object of `Native` behind an instance of `Lazy`. Called once per class. */
export function standIn<A extends object>(
  Lazy: { readonly prototype: A },
  Native: { readonly prototype: Real },
  real: (self: A) => Real,
): void {
  const { prototype } = Lazy;
  for (const name of Object.getOwnPropertyNames(Native.prototype)) {
    if (name === "constructor" || Object.hasOwn(prototype, name)) continue;
    const { get, value } = Object.getOwnPropertyDescriptor(Native.prototype, name)!;
    if (get !== undefined)
      Object.defineProperty(prototype, name, {
        configurable: true,
        get(this: A) {
          return get.call(real(this)) as unknown;
        },
      });
    else if (typeof value === "function")
      Object.defineProperty(prototype, name, {
        configurable: true,
        value(this: A, ...args: unknown[]) {
          return (value as (...args: unknown[]) => unknown).apply(real(this), args);
        },
      });
  }
  Object.defineProperty(prototype, Symbol.for("nodejs.util.inspect.custom"), {
    value(this: A) {
      return real(this);
    },
  });
  Reflect.deleteProperty(prototype, "constructor");
  Object.setPrototypeOf(prototype, Native.prototype);
}
