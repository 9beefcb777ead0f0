/** A real Chromium for tests of pages, headless and silent. */
import { existsSync } from "node:fs";
import { chromium, type Browser } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";

/** Instead of Playwright's 30 s, which a starved two-core machine exceeds. */
const TIMEOUT_MS = 120_000;

/** The caller closes it. Throws where there is none. */
export async function launchChromium(): Promise<Browser> {
  if (!existsSync(CHROMIUM))
    throw new Error(`${CHROMIUM} is not there: apt-get install -y chromium`);
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ], // prettier-ignore
  });
  const newContext = browser.newContext.bind(browser);
  // `newPage` calls it as well.
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(TIMEOUT_MS);
    return context;
  };
  return browser;
}
