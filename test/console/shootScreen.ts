/** Screenshots of the docs, which tests make on their way: `npm run docs:screens`. */
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";

/** Where they go; none are made where it is not set. */
const SCREENS = process.env["SCREENS"];
const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** Without what is the machine's own, and with the second text of each pair for the first. */
export async function shootScreen(
  page: Page,
  name: string,
  ...replaced: ReadonlyArray<readonly [string, string]>
): Promise<void> {
  if (SCREENS === undefined) return;
  const pairs = [[hostname(), "machine-1"], ...replaced];
  await page.evaluate(`(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text !== null; text = texts.nextNode())
      for (const [from, to] of ${JSON.stringify(pairs)}) text.data = text.data.replaceAll(from, to);
  })()`);
  await page.screenshot({ path: join(ROOT, SCREENS, `${name}.png`) });
}
