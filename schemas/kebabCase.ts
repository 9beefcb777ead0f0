/**
 * How a class name is written in URLs and identity frames. A file of its own, without imports, because
 * servers and browsers share it.
 */

/**
 * Class name to kebab case, as the reference writes it in URLs and identity frames
 * (`protocol.md` §1): an all-capitals name is lowered; else each capital starts a word.
 */
export function camelCaseToKebabCase(value: string): string {
  if (value === value.toUpperCase() && value !== value.toLowerCase())
    return value.toLowerCase().replace(/_/g, "-");
  return value
    .replace(/[A-Z]/g, (c) => "-" + c.toLowerCase())
    .replace(/^-/, "")
    .replace(/_/g, "-")
    .replace(/-$/, "");
}
