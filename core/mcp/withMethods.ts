/**
 * An OAuth provider with some of its methods replaced. Providers may be of a user's class, whose
 * private members a copy would not have. Used where a server, a connection or a renewal must not do
 * all that its provider could.
 */
import type { OAuthProvider } from "./OAuthProvider.ts";

export const withMethods = (auth: OAuthProvider, methods: Partial<OAuthProvider>): OAuthProvider =>
  new Proxy(auth, {
    get: (of, key) => {
      const value: unknown = Reflect.get(Object.hasOwn(methods, key) ? methods : of, key);
      return typeof value === "function" ? (value.bind(of) as unknown) : value;
    },
  });
