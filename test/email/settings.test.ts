/** The command line's options of mail: accepted values, and refusals that say what to write. */
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mailSettings } from "../../services/cli/options/mailSettings.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { makeCertificate } from "../webhooks/certificate.ts";

const read = (given: Parameters<typeof mailSettings>[0], env: Record<string, string> = {}) =>
  mailSettings(given, { cwd: "/", env });

test("options that are omitted stay unset", () => {
  expect(Object.values(read({})).every((value) => value === undefined)).toBe(true);
  expect(read({ smtpRelay: "" }).relayUrl).toBeUndefined();
});

test("sizes are in MiB, certificates are read from files, credentials from the environment", () => {
  const folder = tempFolder("pem");
  try {
    const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const key = keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const cert = makeCertificate(keys, { fromMs: Date.now() - 1e6, toMs: Date.now() + 1e9 });
    const file = join(folder.path, "key.pem");
    const certFile = join(folder.path, "cert.pem");
    writeFileSync(file, key);
    writeFileSync(certFile, cert);
    const env = { AGENTS_SMTP_USER: "u", AGENTS_SMTP_PASS: "p" };
    expect(read({ smtpSize: 2, tlsCert: certFile, tlsKey: file, smtpPort: 25 }, env)).toMatchObject(
      {
        port: 25,
        messageBytesMax: 2 * 1024 * 1024,
        tls: { cert, key },
        auth: { user: "u", password: "p" },
      },
    );
    expect(() => read({ tlsCert: file, tlsKey: file })).toThrow(
      "--tls-cert and --tls-key can't be",
    );
  } finally {
    folder.remove();
  }
});

test.each([
  ["half a certificate", { tlsCert: "a.pem" }, {}, /go together/],
  ["half of the credentials", {}, { AGENTS_SMTP_USER: "u" }, /go together/],
  ["an empty password", {}, { AGENTS_SMTP_USER: "u", AGENTS_SMTP_PASS: "" }, /an empty value/],
  ["a relay that is no URL", { smtpRelay: "relay.example.com" }, {}, /smtp:\/\/user:password@/],
  ["a relay of another kind", { smtpRelay: "http://relay.example.com" }, {}, /smtps:\/\//],
  ["a file that is not there", { tlsCert: "/none.pem", tlsKey: "/none.pem" }, {}, /can't be read/],
])("invalid settings are refused: %s", (_what, given, env, why) => {
  expect(() => read(given, env)).toThrow(why);
});
