/** An upgrade and frames by hand, as bytes. */

const KEY = "dGhlIHNhbXBsZSBub25jZQ==";
/** After the request line, up to the last header. */
export const UPGRADE_HEADERS = `Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${KEY}\r\n`;

/** A frame of RFC 6455, masked by zeros, so that a payload's words stay words. */
export function frame(first: number, payload: string): Buffer {
  const bytes = Buffer.from(payload);
  const head =
    bytes.length < 126
      ? [first, 0x80 | bytes.length]
      : [first, 0xfe, bytes.length >> 8, bytes.length & 0xff];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), bytes]);
}
