/**
 * What `cloudflare:email`, a module of the reference's platform, is here: `moduleHooks` resolves
 * the specifier to this file.
 */

/** A message with its text, which `env.EMAIL.send` and a message's `reply` take. */
export class EmailMessage {
  constructor(
    /** The envelope's sender. */
    readonly from: string,
    /** The envelope's recipient. */
    readonly to: string,
    /** The whole message, headers and all. */
    readonly raw: string | ReadableStream<Uint8Array>,
  ) {}
}
