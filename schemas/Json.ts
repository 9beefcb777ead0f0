/** JSON values as TypeScript sees them; what state, payloads and stored heads are made of. */
export type Json =
  null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
