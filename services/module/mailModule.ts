/**
 * The parts of a module that the mail process uses: its `email` handler, or the resolver of its
 * declared routes.
 */
import { mayKnow, resolverOf } from "../../core/mail/EmailRoute.ts";
import type { LoadedModule, ModuleEnv } from "./LoadedModule.ts";

export function mailModule({ email, emailRoutes }: LoadedModule, env: ModuleEnv) {
  if (email !== undefined) return { env, email, mayKnow: () => true };
  return {
    env,
    resolver: resolverOf(emailRoutes),
    mayKnow: (recipient: string) => mayKnow(emailRoutes, recipient),
  };
}

/** Whether the module has a handler or a route for incoming mail. */
export const handlesMail = ({ email, emailRoutes }: LoadedModule): boolean =>
  email !== undefined || emailRoutes.length > 0;
