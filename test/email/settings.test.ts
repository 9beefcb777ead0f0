/**
 * The command line's options of mail: accepted values, and refusals that say what to write instead.
 */
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { mailSettings } from "../../services/cli/options/mailSettings.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const read = (given: Parameters<typeof mailSettings>[0], env: Record<string, string> = {}) =>
  mailSettings(given, { cwd: "/", env });

test("options that are omitted stay unset", () => {
  expect(Object.values(read({})).every((value) => value === undefined)).toBe(true);
  expect(read({ smtpRelay: "" }).relayUrl).toBeUndefined();
});

test("sizes are in MiB, certificates are read from files, credentials from the environment", () => {
  const folder = tempFolder("pem");
  try {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const file = join(folder.path, "key.pem");
    writeFileSync(file, key);
    const env = { AGENTS_SMTP_USER: "u", AGENTS_SMTP_PASS: "p" };
    expect(read({ smtpSize: 2, tlsCert: file, tlsKey: file, smtpPort: 25 }, env)).toMatchObject({
      port: 25,
      messageBytesMax: 2 * 1024 * 1024,
      tls: { cert: key, key },
      auth: { user: "u", password: "p" },
    });
  } finally {
    folder.remove();
  }
});

test.each([
  ["half a certificate", { tlsCert: "a.pem" }, {}, /go together/],
  ["half of the credentials", {}, { AGENTS_SMTP_USER: "u" }, /go together/],
  ["a relay that is no URL", { smtpRelay: "relay.example.com" }, {}, /smtp:\/\/user:password@/],
  ["a relay of another kind", { smtpRelay: "http://relay.example.com" }, {}, /smtps:\/\//],
  ["a file that is not there", { tlsCert: "/none.pem", tlsKey: "/none.pem" }, {}, /can't be read/],
])("invalid settings are refused: %s", (_what, given, env, why) => {
  expect(() => read(given, env)).toThrow(why);
});
