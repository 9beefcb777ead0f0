/** A number with what it counts, for texts that people read: `1 event`, `2 events`. */
export const counted = (count: number, one: string, many: string = `${one}s`): string =>
  `${count} ${count === 1 ? one : many}`;
