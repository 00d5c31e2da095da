/** What a pass changed, as a unified diff of the program's text. */

export interface DiffOptions {
  /** Labels of the `---` and `+++` lines; no header without them. */
  readonly labels?: readonly [before: string, after: string];
  /** Unchanged lines around each change. */
  readonly context?: number;
}

interface Line {
  readonly sign: " " | "-" | "+";
  readonly text: string;
}

/**
 * Unified diff of two texts by lines; empty when they are equal. Deletions precede insertions.
 * Longest common subsequence by dynamic programming after common ends are cut off: programs have hundreds of lines,
 * so the quadratic table (one byte-sized row pair a line) costs well under a millisecond a pass.
 */
export function unifiedDiff(before: string, after: string, options: DiffOptions = {}): string {
  if (before === after) return "";
  const lines = diffLines(splitLines(before), splitLines(after));
  const header = options.labels ? [`--- ${options.labels[0]}`, `+++ ${options.labels[1]}`] : [];
  return `${[...header, ...hunks(lines, options.context ?? 3)].join("\n")}\n`;
}

const splitLines = (text: string): string[] => {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
};

function diffLines(a: readonly string[], b: readonly string[]): Line[] {
  const shorter = Math.min(a.length, b.length);
  let head = 0;
  while (head < shorter && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < shorter - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const same = (text: string): Line => ({ sign: " ", text });
  return [
    ...a.slice(0, head).map(same),
    ...diffMiddle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

function diffMiddle(a: readonly string[], b: readonly string[]): Line[] {
  const width = b.length + 1;
  // common[i * width + j]: length of the longest common subsequence of a[i..] and b[j..].
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] =
        a[i] === b[j]
          ? (common[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
  const lines: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    const [x, y] = [a[i], b[j]];
    if (x !== undefined && x === y) {
      lines.push({ sign: " ", text: x });
      i++;
      j++;
    } else if (
      x !== undefined &&
      (y === undefined || (common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))
    ) {
      lines.push({ sign: "-", text: x });
      i++;
    } else {
      lines.push({ sign: "+", text: y ?? "" });
      j++;
    }
  }
  return lines;
}

/** Groups of changes with their context, each under `@@ -line,count +line,count @@`. */
function hunks(lines: readonly Line[], context: number): string[] {
  const changed = lines.flatMap((line, i) => (line.sign === " " ? [] : [i]));
  const ranges: { from: number; to: number }[] = [];
  for (const i of changed) {
    const last = ranges.at(-1);
    const from = Math.max(0, i - context);
    const to = Math.min(lines.length, i + context + 1);
    if (last !== undefined && from <= last.to) last.to = to;
    else ranges.push({ from, to });
  }
  return ranges.flatMap(({ from, to }) => {
    const part = lines.slice(from, to);
    const span = (sign: "-" | "+"): string => {
      const counts = (line: Line) => line.sign === " " || line.sign === sign;
      const start = lines.slice(0, from).filter(counts).length;
      const count = part.filter(counts).length;
      return `${sign}${count === 0 ? start : start + 1},${count}`;
    };
    return [`@@ ${span("-")} ${span("+")} @@`, ...part.map((line) => line.sign + line.text)];
  });
}
