/** The module of `leftBehind.test.ts`: fibers of `test/fiber`, objects of `test/durableObject`. */
export { Worker } from "../fiber/killModule.ts";
export { Lobby, Tally, Till } from "../durableObject/killModule.ts";

export default {};
