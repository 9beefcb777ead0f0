/** The faults that axe-core finds in a page, and by how much it is wider than its window. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { openPage, type ConsolePlace } from "./openPage.ts";

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const PHONE = { width: 375, height: 700 };

export interface Faults {
  readonly view: string;
  readonly colorScheme: "light" | "dark";
  /** WCAG 2.2 AA, with the elements. */
  readonly found: ReadonlyArray<unknown>;
  /** Pixels past a phone's width. */
  readonly wide: number;
}

/** The faults of each view, dark and light. Empty: none has any. */
export async function faultsOf(
  browser: Browser,
  place: ConsolePlace,
  views: ReadonlyArray<string>,
): Promise<ReadonlyArray<Faults>> {
  const faults: Faults[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    const { page } = await openPage(browser, place, { colorScheme, viewport: PHONE, bypassCSP: true }); // prettier-ignore
    await page.addScriptTag({ content: AXE });
    for (const view of views) {
      await page.goto(`${place.url}/#/${view}`);
      await page.locator("main h1").waitFor();
      await page.waitForFunction("!document.body.innerText.includes('Loading…')");
      const { found, wide } = await look(page);
      if (found.length > 0 || wide !== 0) faults.push({ view, colorScheme, found, wide });
    }
    await page.close();
  }
  return faults;
}

async function look(page: Page): Promise<Pick<Faults, "found" | "wide">> {
  const found = (await page.evaluate(
    "axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }).then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => html + failureSummary)]))",
  )) as unknown[];
  const wide = (await page.evaluate("document.documentElement.scrollWidth - innerWidth")) as number;
  return { found, wide };
}
