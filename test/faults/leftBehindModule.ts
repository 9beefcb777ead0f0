/**
 * The module that the processes of `leftBehind.test.ts` run: the fibers of `test/fiber`, and the
 * Durable Objects of `test/durableObject`.
 */
export { Worker } from "../fiber/killModule.ts";
export { Lobby, Tally, Till } from "../durableObject/killModule.ts";

export default {};
