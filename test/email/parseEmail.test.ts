/** What parsing a mail costs, which strangers send: pieces, lines and parts are bounded. */
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseEmail } from "agents/email";

const parse = (text: string) => parseEmail({ getRaw: async () => Buffer.from(text) });
const HEAD = "Subject: s\r\n";
const multipart = (...parts: string[]): string =>
  `${HEAD}Content-Type: multipart/mixed; boundary="b"\r\n\r\n${parts.map((part) => `--b\r\n${part}\r\n`).join("")}--b--\r\n`;
const base64 = (text: string): string =>
  Buffer.from(text).toString("base64").replaceAll(/.{76}/g, "$&\r\n");
const attached = (message: string): string =>
  `Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n${base64(message)}`;

afterEach(() => vi.unstubAllGlobals());

test("the lines of a text are joined as they come", async () => {
  let most = 0;
  class CountedBlob extends Blob {
    constructor(pieces: BlobPart[], options?: BlobPropertyBag) {
      super(pieces, options);
      most = Math.max(most, pieces.length);
    }
  }
  vi.stubGlobal("Blob", CountedBlob);
  const lines = Array.from({ length: 100_000 }, (_, n) => `${n} ä`);
  expect((await parse(`${HEAD}\r\n${lines.join("\r\n")}`)).text?.trim()).toBe(lines.join("\n"));
  const mail = await parse(multipart(`\r\n${lines.join("\r\n")}`, "\r\nlast"));
  expect(mail.text).toContain("99999 ä\n");
  expect(mail.text).toContain("last");
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThan(10_000);
});

describe("a mail is refused with", () => {
  test.each([
    ["two million empty lines", () => `${HEAD}\r\n${"\r\n".repeat(2_000_000)}`],
    ["thirty thousand parts", () => multipart(...Array<string>(30_000).fill("\r\n"))],
    ["an attached message of empty lines", () => multipart(attached(`${HEAD}\r\n${"\r\n".repeat(200_000)}`))],
    ["an address list of nothing but separators", () => `${HEAD}To: ${"a:".repeat(200_000)}\r\n\r\nx`],
    ["many attached messages of separators", () => multipart(...Array<string>(4).fill(attached(`${HEAD}To: ${"a:".repeat(40_000)}\r\n\r\nx`)))],
    ["two thousand attached messages", () => multipart(...Array<string>(2_000).fill(attached(`${HEAD}\r\nx`)))],
    ["many attached messages of empty lines", () => multipart(...Array<string>(4).fill(attached(`${HEAD}\r\n${"\r\n".repeat(40_000)}`)))],
  ])("%s", async (_what, text) => {
    await expect(parse(text())).rejects.toThrow(/^The mail has more than/);
  }); // prettier-ignore
});

test("a message within an attached one is returned as it is", async () => {
  const inner = `${HEAD}\r\ninner`;
  const mail = await parse(multipart(attached(multipart("\r\nouter", attached(inner)))));
  expect(mail.text).toContain("outer");
  const [whole] = mail.attachments;
  expect(whole?.mimeType).toBe("message/rfc822");
  expect(
    Buffer.from(whole!.content as ArrayBuffer)
      .toString()
      .trim(),
  ).toBe(inner);
});
