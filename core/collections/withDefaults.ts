/**
 * Merges options over their defaults, for calls and for `static options`. An option that is
 * `undefined` counts as one that was not given, as in a parameter list. Pure.
 */

/** Later options win over earlier ones; properties that `defaults` lacks are kept. */
export function withDefaults<T extends object>(
  defaults: T,
  ...given: ReadonlyArray<{ readonly [K in keyof T]?: T[K] | undefined } | undefined>
): T {
  const merged = { ...defaults } as Record<string, unknown>;
  for (const options of given)
    for (const [name, value] of Object.entries(options ?? {}))
      if (value !== undefined) merged[name] = value;
  return merged as T;
}
