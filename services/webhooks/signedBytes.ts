/**
 * The bytes that a provider signs, by its row's template: text with placeholders for parts of the
 * request. Fed by `verifierOf` and `sign`.
 *
 * `{body}`, `{timestamp}`, `{id}`, `{url}`, `{method}`; `{form}`: Twilio's sorted form fields;
 * `{crc32}`: the body's CRC-32 in decimal; `{webhook}`: the id of the webhook at the provider.
 */
import { crc32 } from "node:zlib";
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import type { Message } from "./Signatures.ts";

/** What fills a template. */
export interface SignedParts {
  readonly body: Uint8Array;
  readonly timestamp: string;
  readonly id: string;
  readonly url: string;
  readonly method: string;
  readonly form: string;
  readonly webhook: string;
}

type Placeholder = keyof SignedParts | "crc32";
export type TemplatePart = { readonly _tag: "Text"; readonly text: string } | Placeholder;

const PLACEHOLDER = /^\{(body|timestamp|id|url|method|form|crc32|webhook)\}$/;

/** Throws `InvalidWebhook` for a placeholder that there isn't, naming those that are of use to users. */
export function parseTemplate(template: string): ReadonlyArray<TemplatePart> {
  return template
    .split(/(\{[^{}]*\})/)
    .filter((piece) => piece !== "")
    .map((piece): TemplatePart => {
      const name = PLACEHOLDER.exec(piece)?.[1];
      if (name !== undefined) return name as Placeholder;
      if (/[{}]/.test(piece))
        throw new InvalidWebhook({
          message: `template "${template}": "${piece}" is not one of {body}, {timestamp}, {id}, {url}, {method}`,
        });
      return { _tag: "Text", text: piece };
    });
}

export const signedBytes = (template: ReadonlyArray<TemplatePart>, parts: SignedParts): Message =>
  template.map((part) => {
    if (part === "body") return parts.body;
    if (part === "crc32") return Buffer.from(String(crc32(parts.body)));
    return Buffer.from(typeof part === "string" ? parts[part] : part.text);
  });

/** A provider's form has a few dozen fields in some kilobytes; one that is none of its may be meant to be slow. */
const FORM_BYTES_MAX = 1024 * 1024;
/** For the same reason: each field is sorted before it is known who sent it. */
const FORM_FIELDS_MAX = 1000;
const strictUtf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * The fields of a form as Twilio signs them: sorted by name, each name followed by its value, repeated
 * values once and sorted. Undefined for what is no form, or too large a one.
 */
export function sortedForm(body: Uint8Array): string | undefined {
  if (body.length > FORM_BYTES_MAX) return undefined;
  const values = new Map<string, Set<string>>();
  let fields = 0;
  try {
    for (const [name, value] of new URLSearchParams(strictUtf8.decode(body))) {
      const of = values.get(name);
      if (of === undefined) values.set(name, new Set([value]));
      else of.add(value);
      if (++fields > FORM_FIELDS_MAX) return undefined;
    }
  } catch {
    // Not UTF-8: no provider has signed it.
    return undefined;
  }
  return [...values.keys()]
    .toSorted()
    .map((name) =>
      [...values.get(name)!].toSorted().reduce((text, value) => text + name + value, ""),
    )
    .join("");
}
