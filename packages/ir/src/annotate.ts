/** PTX for people: the same instructions, each run of them under the statement of the machine text that they were made for. */

/** A kernel's text with its statements, and the text that they are lines of. */
export interface AnnotatedPtx {
  /** PTX with `.file`, `.loc` and comments. `barePtx` gives back the text without them. */
  readonly ptx: string;
  /** The program at stage machine, under the name that `.file` says. */
  readonly source: { readonly name: string; readonly text: string };
}

/** One instruction in a body; directives begin with a dot, labels and braces do not end in a semicolon. */
const instruction = /^\s+[@a-z].*;$/;

/**
 * Puts `// STATEMENT` and `.loc 1 LINE COLUMN` before each instruction whose statement is not that of the one before it, and `.file 1` behind the head.
 * `lines`: for each line of `ptx` the line of `source.text`, from 1; 0 for what stands for the kernel as a whole, which the kernel's own line then names.
 * Without any (`[]`, of a backend that does not say) the text stays as it is.
 */
export function annotatePtx(ptx: string, lines: readonly number[], source: AnnotatedPtx["source"]): string {
  if (lines.length === 0) return ptx;
  const statements = source.text.split("\n");
  const kernel = 1 + statements.findIndex((line) => line.startsWith("tile.kernel"));
  const out: string[] = [];
  let current = 0;
  let headed = false;
  ptx.split("\n").forEach((line, i) => {
    if (line === "{") current = 0;
    if (instruction.test(line)) {
      const at = lines[i] || kernel;
      const statement = statements[at - 1] ?? "";
      if (at !== current)
        out.push(
          `  // ${statement.trim().replace(/ \{$/, "")}`,
          `  .loc 1 ${at} ${1 + statement.search(/\S/)}`,
        );
      current = at;
    }
    out.push(line);
    if (!headed && line.startsWith(".address_size")) {
      out.push(`.file 1 "${source.name}"`);
      headed = true;
    }
  });
  return out.join("\n");
}

/** The text without what `annotatePtx` puts in: byte for byte what it was made of. */
export const barePtx = (ptx: string): string =>
  ptx.replace(/^\.file 1 ".*"\n/m, "").replace(/^ {2}\/\/ .*\n {2}\.loc 1 \d+ \d+\n/gm, "");
