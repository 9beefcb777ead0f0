/** Rules for every provider of the table: signed requests are accepted, and nothing else. */
import { createHash, generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  gitlabToken,
  path,
  sign,
  standardWebhooks,
  unsigned,
  webhook,
} from "../../services/webhooks/index.ts";
import { providers, sentBy, tokenProvider, type Provider } from "./everyProvider.ts";
import { NOW_MS, OTHER, reasonOf, verdictOf } from "./requests.ts";

const named = (list: ReadonlyArray<Provider>) =>
  list.map((p) => [p.secret.startsWith("whsk_") ? `${p.name} (v1a)` : p.name, p] as const);
const timestamped = providers.filter((p) => p.toleranceSeconds !== undefined);
const strangersKey = {
  discord: "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
  sendgrid: generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey,
  paypal: generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey,
} as const;

/** Another's secret of the kind that the provider has. */
function otherSecret({ name, secret }: Provider): string {
  if (secret.startsWith("whsk_")) return `whsk_${Buffer.alloc(32, 7).toString("base64")}`;
  if (name === "discord") return strangersKey.discord;
  if (name === "sendgrid" || name === "paypal")
    return strangersKey[name].export({ type: "pkcs8", format: "pem" }).toString();
  return OTHER;
}

test("every provider that can sign is listed here; svix and hmac have tests of their own", () => {
  const names = [...providers, tokenProvider].map(({ name }) => name);
  const { svix: _svix, hmac: _hmac, ...others } = sign;
  expect(new Set(names)).toEqual(new Set(Object.keys(others)));
});

describe.each(named([...providers, tokenProvider]))("%s", (_, provider) => {
  const verifier = provider.make();

  test("verifies its request, with the event's id and type", () => {
    const verdict = verdictOf(verifier, sentBy(provider));
    expect(verdict).toMatchObject({
      _tag: "Verified",
      ...(provider.dedupId !== undefined && { dedupId: provider.dedupId }),
      ...(provider.eventType !== undefined && { eventType: provider.eventType }),
    });
    if (provider.dedupId === undefined) expect(verdict).not.toHaveProperty("dedupId");
    expect(verifier.signs).toContain("body");
  });

  test("refuses another's secret", () => {
    const sent = sentBy(provider, { secret: otherSecret(provider) });
    expect(reasonOf(verifier, sent)).toBe("no signature matches");
  });

  test("refuses a signature header that is missing, empty or repeated", () => {
    const sent = sentBy(provider);
    for (const name of provider.signed) {
      const { [name]: value, ...rest } = sent.headers;
      expect(value, name).toBeTruthy();
      expect(reasonOf(verifier, { ...sent, headers: rest }), name).toMatch(/^no /);
      expect(reasonOf(verifier, { ...sent, headers: { ...rest, [name]: "" } }), name).toMatch(
        /^no /,
      );
      const twice = { ...rest, [name]: [value!, value!] };
      expect(reasonOf(verifier, { ...sent, headers: twice }), name).toMatch("more than once");
      const joined = { ...rest, [name]: `${value}, ${value}` };
      expect(verdictOf(verifier, { ...sent, headers: joined })._tag, name).toBe("Rejected");
    }
  });

  test("refuses a changed signed header", () => {
    const sent = sentBy(provider);
    for (const name of provider.signed) {
      const value = sent.headers[name]!;
      for (const other of [`${value}0`, value.slice(0, -1), ` ${value}`, `x${value}`])
        expect(
          verdictOf(verifier, { ...sent, headers: { ...sent.headers, [name]: other } })._tag,
          `${name}: ${other}`,
        ).toBe("Rejected");
    }
  });

  test("is Misconfigured without its key in the environment, and accepts nothing", () => {
    for (const env of [{}, Object.create({ SECRET: "x" }) as object])
      expect(verdictOf(verifier, { ...sentBy(provider), env: { ...env } })._tag).toBe(
        "Misconfigured",
      );
  });

  test("has the body's hash as the replay guard's id, or the signed id if the body is signed weakly", () => {
    const verdict = verdictOf(provider.make({ replayGuard: true }), sentBy(provider));
    const hash = createHash("sha256").update(provider.body).digest("hex");
    expect(verdict).toMatchObject({ replayId: provider.name === "paypal" ? "id-1" : hash });
  });
});

describe.each(named(providers))("the bytes that %s signs", (_, provider) => {
  test("are all of the body: a changed, longer or shorter one is refused", () => {
    const verifier = provider.make();
    const sent = sentBy(provider);
    for (const body of [
      `${provider.body} `,
      provider.body.slice(0, -1),
      provider.body.replace(/[a-z]/, "X"),
      "",
    ])
      expect(verdictOf(verifier, { ...sent, body })._tag, body).toBe("Rejected");
  });

  test("may be any: binary, Unicode, empty", () => {
    if (provider.name === "twilio" || provider.name === "linear") return;
    const binary = Uint8Array.from({ length: 500 }, (__, i) => (i * 7) % 256);
    for (const body of [binary, "žluť 🐎", ""]) {
      const verdict = verdictOf(provider.make(), sentBy(provider, { body }));
      expect(verdict._tag).toBe("Verified");
    }
  });
});

describe.each(named(timestamped))("the time that %s signs", (_, provider) => {
  test("may be as far from now as the tolerance, either way, and no further", () => {
    for (const [more, seconds] of [
      [{}, provider.toleranceSeconds!],
      [{ toleranceSeconds: 10 }, 10],
    ] as const) {
      const verifier = provider.make(more);
      for (const sense of [1, -1]) {
        const at = (s: number) => sentBy(provider, { nowMs: NOW_MS + sense * s * 1000 });
        expect(verdictOf(verifier, at(seconds))._tag).toBe("Verified");
        expect(reasonOf(verifier, at(seconds + 1))).toMatch(sense > 0 ? "s ahead" : "s old");
      }
    }
  });
});

test("Linear's time is in the signed body, within a minute, and required", () => {
  const provider = providers.find(({ name }) => name === "linear")!;
  const at = (webhookTimestamp: unknown) =>
    verdictOf(
      provider.make(),
      sentBy(provider, { body: JSON.stringify({ type: "Issue", webhookTimestamp }) }),
    );
  for (const ms of [0, 60_000, -60_000]) expect(at(NOW_MS + ms)._tag).toBe("Verified");
  for (const wrong of [NOW_MS + 60_001, NOW_MS - 60_001, undefined, null, "now", -1, [NOW_MS]])
    expect(at(wrong)._tag, String(wrong)).toBe("Rejected");
  const sent = sentBy(provider, { body: "not json" });
  const withHeader = { ...sent, headers: { ...sent.headers, "linear-timestamp": String(NOW_MS) } };
  expect(reasonOf(provider.make(), withHeader), "the header is not signed").toBe("no timestamp");
});

test("Zoom's events of several people who leave a meeting in one millisecond are all distinct", () => {
  const zoom = providers.find(({ name }) => name === "zoom")!;
  const idOf = (person: string, nowMs: number): unknown => {
    const object = {
      uuid: "4444AAAiAAAAAiAiAiiAii==",
      id: "1",
      participant: { user_name: person },
    };
    const event = { event: "meeting.participant_left", event_ts: NOW_MS, payload: { object } };
    const sent = sentBy(zoom, { body: JSON.stringify(event), nowMs });
    return verdictOf(zoom.make(), sent);
  };
  expect(idOf("ann", NOW_MS)).toMatchObject({ dedupId: expect.stringMatching(/^sha256:/) });
  expect(idOf("ann", NOW_MS)).not.toEqual(idOf("bob", NOW_MS));
  // A retry is signed at another time, and has the same body.
  expect(idOf("ann", NOW_MS + 60_000)).toEqual(idOf("ann", NOW_MS));
});

test("two live keys both verify: tokens, and a secret beside a public key", () => {
  for (const secret of [tokenProvider.secret, OTHER])
    for (const names of [
      ["SECRET", "OTHER"],
      ["OTHER", "SECRET"],
    ])
      expect(
        verdictOf(gitlabToken({ secret: names }), sentBy(tokenProvider, { secret }))._tag,
      ).toBe("Verified");
  for (const provider of providers.filter(({ name }) => name === "standardWebhooks"))
    for (const secret of [
      ["SECRET", "WHPK"],
      ["WHPK", "SECRET"],
    ])
      expect(verdictOf(standardWebhooks({ secret }), sentBy(provider))._tag).toBe("Verified");
});

test("agents dev generates secrets only, never a provider's public key", () => {
  const names = Object.fromEntries(providers.map((p) => [p.name, p.make().secretNames]));
  expect(names).toMatchObject({
    github: ["SECRET"],
    meta: ["SECRET", "OTHER"],
    discord: [],
    sendgrid: [],
    paypal: [],
  });
});

test("an invalid public key is refused when declared, and not printed", () => {
  const make = (name: Provider["name"]) => providers.find((p) => p.name === name)!.make;
  const value = { value: "deadbeef" };
  const wrong = { publicKey: value };
  expect(() => make("discord")(wrong as never)).toThrow(/discord\(\{ publicKey \}\).*64 hexa/);
  expect(() => make("sendgrid")(wrong as never)).toThrow(/sendgrid.*not a public key/);
  expect(() => make("paypal")({ webhookId: "W", certificate: value } as never)).toThrow(
    /paypal\(\{ certificate \}\).*PEM/,
  );
  expect(() => make("standardWebhooks")({ secret: { value: "whpk_AAAA" } } as never)).toThrow(
    /32 bytes/,
  );
  for (const verifier of [unsigned(), gitlabToken({ secret: "S" })])
    expect(() => webhook("/w/:id", { agent: "A", verify: verifier, entity: path("id") })).toThrow(
      /trust: true/,
    );
});
