/** A page of the console, with its token. `broken`, for a test's end: what went wrong in it. */
import type { Browser, Locator, Page } from "playwright-core";

export type PageOptions = Parameters<Browser["newPage"]>[0];

export interface ConsolePlace {
  readonly url: string;
  readonly token: string;
  /** As after `#/`. Absent: the overview. */
  readonly path?: string | undefined;
}

export async function openPage(
  browser: Browser,
  { url, token, path }: ConsolePlace,
  options: PageOptions = {},
): Promise<{ readonly page: Page; readonly broken: string[] }> {
  const page = await browser.newPage(options);
  const broken: string[] = [];
  page.on("pageerror", (error) => broken.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error") broken.push(message.text());
  });
  await page.goto(`${url}/#token=${encodeURIComponent(token)}`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  if (path !== undefined) await page.goto(`${url}/#/${path}`);
  return { page, broken };
}

/** Presses a button of `part`, and the one of that name in the dialog that asks to confirm it. */
export async function pressAndConfirm(part: Page | Locator, name: string | RegExp): Promise<void> {
  await part.getByRole("button", { name }).click();
  const page = "page" in part ? part.page() : part;
  await page.getByRole("dialog").getByRole("button", { name }).click();
}
