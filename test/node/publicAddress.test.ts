/** Which addresses an outgoing webhook may reach, and what a POST is. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { nodeOutgoing } from "../../services/node/NodeOutgoing.ts";
import { isPublicAddress } from "../../services/node/PublicAddress.ts";

const PRIVATE = [
  "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
  "127.255.0.1", "169.254.169.254", "169.254.0.1", "172.16.0.1", "172.31.255.255", "192.0.0.8",
  "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.7",
  "203.0.113.9", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
  "::", "::1", "fe80::1", "fe80::1%eth0", "fec0::1", "fc00::1", "fd00:ec2::254", "fdff::1", "ff02::1",
  "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "::127.0.0.1",
  "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2001::1", "2001:db8::1", "2002:7f00:1::1",
  "100::1", "3fff::1", "5f00::1", "[::1]",
]; // prettier-ignore
const PUBLIC = [
  "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.1.1.1",
  "128.0.0.1", "169.253.1.1", "169.255.1.1", "172.15.0.1", "172.32.0.1", "192.167.1.1", "198.17.1.1",
  "198.20.0.1", "223.255.255.1", "2606:4700:4700::1111", "2a00:1450::1", "2400:cb00::1",
  "::ffff:1.1.1.1", "::ffff:101:101", "64:ff9b::8.8.8.8", "64:ff9b::808:808", "[2606:4700::1]",
]; // prettier-ignore

describe("an address", () => {
  test.each(PRIVATE)("%s is not public", (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });
  test.each(PUBLIC)("%s is public", (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });
  test.each(["", "example.com", "1.2.3", "1.2.3.4.5", "0x7f000001"])(
    "%j is not an address",
    (address) => {
      expect(isPublicAddress(address)).toBe(false);
    },
  );
});

describe("a POST", () => {
  const seen: IncomingMessage[] = [];
  const bodies: string[] = [];
  let server: Server;
  let port: number;
  beforeAll(async () => {
    server = createServer((request, response) => {
      seen.push(request);
      let text = "";
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.on("end", () => {
        bodies.push(text);
        if (request.url === "/redirect")
          response.writeHead(307, { location: `http://127.0.0.1:${port}/secret` }).end();
        else if (request.url === "/endless") response.writeHead(200).write("more and more");
        else if (request.url !== "/silent") response.writeHead(204).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    ({ port } = server.address() as AddressInfo);
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });
  const post = (url: string, options: { allowPrivate?: boolean; timeoutMs?: number } = {}) =>
    nodeOutgoing.post({
      url,
      headers: { "content-type": "application/json" },
      body: '{"ž":1}',
      allowPrivate: false,
      timeoutMs: 5000,
      ...options,
    });

  test.each([
    "http://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f.1:PORT/",
    "http://017700000001:PORT/",
    "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST.:PORT/",
    "http://a.b.localhost:PORT/",
    "http://0:PORT/",
    "http://169.254.169.254/latest/meta-data/",
  ])("to %s is refused without a connection", async (url) => {
    const before = seen.length;
    const result = await post(url.replace("PORT", String(port)));
    expect(result).toMatchObject({
      _tag: "Refused",
      message: expect.stringContaining("is not an address of the public internet"),
    });
    expect(seen).toHaveLength(before);
  });

  test("that allows private addresses is sent whole, once, with its headers", async () => {
    seen.length = bodies.length = 0;
    expect(await post(`http://127.0.0.1:${port}/a?b`, { allowPrivate: true })).toEqual({
      _tag: "Answered",
      status: 204,
    });
    expect(bodies).toEqual(['{"ž":1}']);
    expect(seen[0]).toMatchObject({ method: "POST", url: "/a?b" });
    expect(seen[0]!.headers).toMatchObject({
      "content-type": "application/json",
      "content-length": "8",
    });
  });

  test("does not follow a redirect: its status is the answer", async () => {
    seen.length = 0;
    expect(await post(`http://127.0.0.1:${port}/redirect`, { allowPrivate: true })).toEqual({
      _tag: "Answered",
      status: 307,
    });
    expect(seen.map(({ url }) => url)).toEqual(["/redirect"]);
  });

  test("does not wait for the end of an answer's body", async () => {
    expect(await post(`http://127.0.0.1:${port}/endless`, { allowPrivate: true })).toEqual({
      _tag: "Answered",
      status: 200,
    });
  });

  test("without an answer in time fails with the reason", async () => {
    const options = { allowPrivate: true, timeoutMs: 50 };
    expect(await post(`http://127.0.0.1:${port}/silent`, options)).toEqual({
      _tag: "Failed",
      message: "no answer within 50 ms",
    });
  });

  test("to an unused port, or to an invalid name, fails", async () => {
    const nobody = await post("http://127.0.0.1:1/", { allowPrivate: true });
    expect(nobody).toMatchObject({ _tag: "Failed", message: expect.stringContaining("REFUSED") });
    expect((await post("http://nobody.invalid/"))._tag).toBe("Failed");
  });
});
