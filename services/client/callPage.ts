/**
 * Calls the page's callbacks. An error that one throws is reported as that of any listener, and
 * does not end what the client still has to do: to reject other calls, to pass on other chunks.
 */
export function callPage(callback: () => void): void {
  try {
    callback();
  } catch (error) {
    // `reportError` does not exist in Node.
    queueMicrotask(() => {
      throw error;
    });
  }
}
