/** The options of `Agent.sendEmail`. */
import type { EmailContent, SendingOptions } from "./composeMail.ts";

/** A sender of mail: `env.EMAIL`, or the app's own object. */
export interface SendsEmail {
  /**
   * Sends the message, an `EmailContent`, now. Its result may have a `messageId`. The type `never`
   * admits functions that accept more forms, such as the platform's `SendEmail`.
   */
  send(message: never): Promise<unknown>;
}

/** Options of `sendEmail`: the message, and how it is sent. */
export interface SendEmailOptions extends EmailContent, SendingOptions {
  /**
   * With `this.env.EMAIL`, the message waits in the agent and is retried. The `send` of any other
   * object is called once.
   */
  readonly binding: SendsEmail | undefined;
  /** Signs the agent's headers, so that replies that keep them reach it. Default: unsigned. */
  readonly secret?: string | null | undefined;
}
