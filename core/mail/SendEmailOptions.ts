/** What `Agent.sendEmail` takes. */
import type { EmailContent, SendingOptions } from "./composeMail.ts";

/** A sender of mail: `env.EMAIL`, or the app's own object. */
export interface SendsEmail {
  /**
   * Sends the message, an `EmailContent`, now. What it resolves to may have a `messageId`. `never`
   * admits functions that take more forms, as the platform's `SendEmail` does.
   */
  send(message: never): Promise<unknown>;
}

/** Options of `sendEmail`: the message, and how it is sent. */
export interface SendEmailOptions extends EmailContent, SendingOptions {
  /**
   * `this.env.EMAIL`: the message waits in the agent and is retried. Any other: its `send` is
   * called once.
   */
  readonly binding: SendsEmail | undefined;
  /**
   * Signs the agent's headers, so that a reply that keeps them reaches this agent. Default:
   * unsigned.
   */
  readonly secret?: string | null | undefined;
}
