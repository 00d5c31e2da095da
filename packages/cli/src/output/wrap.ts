/** Text that fits a terminal: lines break between words, never in one. */
import { stripVTControlCharacters } from "node:util";

/** Characters that a text takes on a terminal, without those that only colour it. */
const lengthOf = (text: string): number => stripVTControlCharacters(text).length;

/**
 * Break at spaces so that no line passes `width`; further lines begin with `indent`, of which `free` characters do not count. A word that is longer
 * stays whole.
 */
export function wrap(text: string, width: number, indent: string, free = 0): string {
  const lines: string[] = [];
  const [first = "", ...words] = text.split(" ");
  let line = first;
  for (const word of words) {
    const longer = `${line} ${word}`;
    const room = lines.length === 0 ? width : width + free;
    if (line.trim() === "" || lengthOf(longer) <= room) line = longer;
    else {
      lines.push(line.trimEnd());
      // A long name stands as far to the left as it needs.
      line = indent.slice(0, Math.max(0, width + free - lengthOf(word))) + word;
    }
  }
  return [...lines, line.trimEnd()].join("\n");
}

/** Where the second column of a `name  value` line begins; its own indentation where it has none in the first half. */
function hangingOf(line: string, width: number): number {
  const plain = stripVTControlCharacters(line);
  const start = plain.length - plain.trimStart().length;
  const column = /^\s*\S+(?: \S+)*? {2,}/.exec(plain)?.[0].length;
  return column === undefined || column > width / 2 ? start + 2 : column;
}

/** Every line of a text within `width`: further lines stand under the value of `name  value`, else two to the right. */
export function fit(text: string, width: number): string {
  if (width === Number.POSITIVE_INFINITY) return text;
  return text
    .split("\n")
    .map((line) => (lengthOf(line) <= width ? line : wrap(line, width, " ".repeat(hangingOf(line, width)))))
    .join("\n");
}
