/** Lines that keep a kernel's threads and engines in order: what a person takes out to see the fault convicted. */

export interface Plant {
  /** 1-based. */
  readonly line: number;
  readonly text: string;
}

/** Statements of a tile program that only order others, in any stage. */
const statement =
  /^\s*(acquire|commit|wait|release|barrier|fence|next|warp\.sync|mbar\.(wait|expect|arrive)|wgmma\.wait|tcgen05\.commit|cp\.async\.(commit|wait))(?=\s|$)[^{]*$/;

/** Instructions of PTX that only order others. Waits in a loop of their own are no single line. */
const instruction =
  /^\s*(@!?%\w+\s+)?(bar\.|barrier\.|fence\.|membar\.|cp\.async\.wait_|cp\.async\.commit_group|cp\.async\.bulk\.wait_|cp\.async\.bulk\.commit_group|wgmma\.fence|wgmma\.commit_group|wgmma\.wait_group|tcgen05\.wait|tcgen05\.fence|tcgen05\.commit|mbarrier\.arrive|griddepcontrol\.)/;

/** Lines of a stage's text, or of PTX, that can be taken out one by one. */
export function plants(stage: string, text: string): readonly Plant[] {
  const fits = stage === "ptx" ? instruction : statement;
  return text.split("\n").flatMap((line, i) => (fits.test(line) ? [{ line: i + 1, text: line.trim() }] : []));
}

/** The text without a line. */
export const without = (text: string, line: number): string =>
  text
    .split("\n")
    .filter((_, i) => i + 1 !== line)
    .join("\n");
