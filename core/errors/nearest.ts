/** The word that somebody who misspelt it most likely meant, for errors that name it. Pure. */

/** Edits per word of three letters: `webhook` for `webhooks`, `RepoAgnet` for `RepoAgent`. */
const LETTERS_PER_EDIT = 3;

/**
 * The candidate with the fewest letters to insert, remove, replace or swap with the next one. Case
 * and hyphens do not count. Undefined: none is near.
 */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const plain = (text: string): string => text.toLowerCase().replaceAll("-", "");
  let best: string | undefined;
  let bestEdits = Math.max(1, Math.floor(word.length / LETTERS_PER_EDIT)) + 1;
  for (const candidate of candidates) {
    const edits = distance(plain(word), plain(candidate));
    if (edits >= bestEdits) continue;
    best = candidate;
    bestEdits = edits;
  }
  return best;
}

/** The optimal string alignment distance. */
function distance(one: string, other: string): number {
  let before: number[] = [];
  let last = Array.from({ length: other.length + 1 }, (_, n) => n);
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const same = one[i - 1] === other[j - 1];
      let edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (same ? 0 : 1));
      const swapped = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      if (swapped) edits = Math.min(edits, before[j - 2]! + 1);
      row.push(edits);
    }
    before = last;
    last = row;
  }
  return last[other.length]!;
}
