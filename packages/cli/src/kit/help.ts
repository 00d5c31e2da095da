/** `-h` and `--help`: examples first, then the flags, grouped. */
import type { Paint } from "../output/colour.ts";
import { renderPairs } from "../output/table.ts";
import { wrap } from "../output/wrap.ts";
import { nameOf, type Slot, spell } from "./parse.ts";

interface Example {
  readonly what: string;
  /** The arguments after `tilewright`. */
  readonly line: string;
}

export interface HelpSource {
  readonly name: string;
  readonly summary: string;
  /** A paragraph or two for --help. */
  readonly about: string;
  readonly examples: readonly Example[];
  readonly slots: readonly Slot[];
}

/** `-m, -M, --lda N`, short spellings first. */
export function flagColumn(slot: Slot): string {
  const names = [...slot.names]
    .sort((a, b) => Number(a.length > 1) - Number(b.length > 1))
    .map((name) => spell(name, slot.meta.longLetters));
  const [first = "", ...rest] = names;
  const negated = slot.meta.negatable ? first.replace("--", "--[no-]") : first;
  return [[negated, ...rest].join(", "), slot.meta.hint ?? ""].join(" ").trim();
}

function usage(source: HelpSource): string {
  const positionals = source.slots
    .filter((slot) => slot.names.length === 0)
    .map((slot) => (slot.required ? (slot.meta.hint ?? slot.key) : `[${slot.meta.hint ?? slot.key}]`));
  return ["tilewright", source.name, ...positionals, "[flags]"].join(" ");
}

const exampleLines = (source: HelpSource, paint: Paint): string[] =>
  source.examples.flatMap((example) => [
    `  ${paint("dim", `# ${example.what}`)}`,
    `  tilewright ${example.line}`,
  ]);

/** Flags and what they do beside each other; of a terminal the flags take a third, and a longer one stands on a line of its own. */
function renderFlags(rows: readonly (readonly [flag: string, summary: string])[], width: number): string {
  if (width === Number.POSITIVE_INFINITY) return renderPairs(rows, "  ").trimEnd();
  const column = Math.min(Math.max(...rows.map(([flag]) => flag.length)), Math.floor(width / 3));
  const indent = " ".repeat(column + 4);
  return rows
    .map(([flag, summary]) => {
      const [before, name] =
        flag.length > column ? [`  ${flag}\n`, indent] : ["", `  ${flag.padEnd(column)}  `];
      return `${before}${name}${wrap(summary, width - name.length, indent, name.length)}`;
    })
    .join("\n");
}

/** The help of one command; the short form leaves out the description and names flags without explaining them. */
export function renderHelp(source: HelpSource, paint: Paint, full: boolean): string {
  const out = [
    `${source.summary}`,
    "",
    paint("bold", "Examples"),
    ...exampleLines(source, paint),
    "",
    `${paint("bold", "Usage")}  ${usage(source)}`,
  ];
  if (!full) {
    const flags = source.slots.filter((slot) => slot.names.length > 0).map(nameOf);
    return `${[...out, `${wrap(`${paint("bold", "Flags")}  ${flags.join(" ")}`, Math.min(100, paint.width), "       ")}`, "", `tilewright ${source.name} --help explains them.`].join("\n")}\n`;
  }
  // Lines of the source end where they do; a terminal has ends of its own.
  out.push(
    "",
    paint.width === Number.POSITIVE_INFINITY
      ? source.about
      : wrap(source.about.replaceAll("\n", " "), paint.width, ""),
  );
  const positionals = source.slots.filter((slot) => slot.names.length === 0);
  if (positionals.length > 0) {
    const rows = positionals.map((slot) => [slot.meta.hint ?? slot.key, slot.meta.summary] as const);
    out.push("", paint("bold", "Arguments"), renderFlags(rows, paint.width));
  }
  const flags = source.slots.filter((slot) => slot.names.length > 0);
  for (const group of new Set(flags.map((slot) => slot.meta.group))) {
    const rows = flags
      .filter((slot) => slot.meta.group === group)
      .map((slot) => [flagColumn(slot), slot.meta.summary] as const);
    out.push("", paint("bold", group), renderFlags(rows, paint.width));
  }
  return `${out.join("\n")}\n`;
}
