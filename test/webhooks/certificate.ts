/** A self-signed X.509 certificate with a test's dates, in DER: Node makes none. */
import { sign, type KeyPairKeyObjectResult } from "node:crypto";

const der = (tag: number, ...parts: ReadonlyArray<Uint8Array>): Buffer => {
  const content = Buffer.concat(parts);
  const length =
    content.length < 128 ? [content.length] : [0x82, content.length >> 8, content.length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
};
const sequence = (...parts: ReadonlyArray<Uint8Array>) => der(0x30, ...parts);
/** sha256WithRSAEncryption, 1.2.840.113549.1.1.11. */
const ALGORITHM = sequence(der(0x06, Buffer.from("2a864886f70d01010b", "hex")), der(0x05));
/** GeneralizedTime: YYYYMMDDHHMMSSZ. */
const time = (ms: number) =>
  der(0x18, Buffer.from(new Date(ms).toISOString().replace(/[-:T]|\.\d+/g, "")));
/** One attribute: the common name, 2.5.4.3. */
const name = (text: string) =>
  sequence(
    der(0x31, sequence(der(0x06, Buffer.from("550403", "hex")), der(0x0c, Buffer.from(text)))),
  );

/** In PEM, signed with SHA-256 and RSA by its own key. */
export function makeCertificate(
  { publicKey, privateKey }: KeyPairKeyObjectResult,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): string {
  const body = sequence(
    der(0x02, Buffer.from([1])),
    ALGORITHM,
    name("test"),
    sequence(time(fromMs), time(toMs)),
    name("test"),
    publicKey.export({ type: "spki", format: "der" }),
  );
  const signature = der(0x03, Buffer.from([0]), sign("sha256", body, privateKey));
  const base64 = sequence(body, ALGORITHM, signature).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${base64.replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
}
