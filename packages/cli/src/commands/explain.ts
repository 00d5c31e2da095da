/** `tilewright explain`: what a hazard rule or a diagnostic means. */

import { didYouMean } from "@tilewright/core";
import { type RuleId, rules } from "@tilewright/emulator";
import { z } from "zod";
import { codes, problemWith } from "../codes.ts";
import { type CodePage, type Page, type RulePage, readPages } from "../emulation/pages.ts";
import { defineCommand } from "../kit/command.ts";
import { exitCodes } from "../kit/exit.ts";
import { optionalArgument } from "../kit/flags.ts";
import type { Paint } from "../output/colour.ts";
import { renderPairs } from "../output/table.ts";
import { wrap } from "../output/wrap.ts";

const isRule = (page: Page): page is RulePage => "rule" in page;

/** Longest line of prose, also where a terminal has more room. */
const proseWidth = 100;

function renderRule(page: RulePage, paint: Paint): string {
  const { severity, check, omission } = ruleOf(page);
  const text = (words: string): string => wrap(words, Math.min(paint.width, proseWidth), "");
  const left = omission
    ? [text("Shipped compilers leave it out: a note under --profile triton, cutlass and nvcc."), ""]
    : [];
  return [
    `${paint("bold", `${page.rule} ${page.name}`)} (${severity}, --check ${check})`,
    "",
    ...[text(page.checks), ""],
    ...[text(`${paint("bold", "On hardware:")} ${page.hardware}`), "", ...left],
    paint("bold", "Right:"),
    ...page.fix.split("\n").map((line) => `  ${line}`),
    "",
    text(`${paint("bold", "PTX ISA:")} ${page.isa.join("; ")}`),
    text(
      `${paint("bold", "Switched off by:")} --suppress ${page.rule}:LINE at one place, --disable ${page.rule}`,
    ),
    "",
  ].join("\n");
}

function ruleOf(page: RulePage): {
  readonly severity: string;
  readonly check: string;
  readonly omission: boolean;
} {
  const found = rules[page.rule as RuleId];
  return { severity: found.severity, check: found.check, omission: "omission" in found };
}

const renderCode = (page: CodePage, paint: Paint): string => {
  const text = (words: string): string => wrap(words, Math.min(paint.width, proseWidth), "");
  return [
    `${paint("bold", page.code)} (${page.kinds})`,
    "",
    text(page.meaning),
    "",
    text(`${paint("bold", "What to do:")} ${page.advice}`),
    "",
  ].join("\n");
};

export const explain = defineCommand({
  name: "explain",
  args: z.strictObject({
    name: optionalArgument("a rule by number or name, or a diagnostic's code", "RULE|CODE"),
  }),
  positionals: ["name"],
  run(session, { name }) {
    const read = readPages();
    if (!read.ok) return session.fail(read.error);
    const pages = read.value;
    if (name === undefined) {
      const list = pages
        .filter(isRule)
        .map((page) => [`${page.rule} ${page.name}`, ruleOf(page).check] as const);
      session.result(pages, () => renderPairs(list));
      return exitCodes.ok;
    }
    const wordsOf = (page: Page): readonly string[] => (isRule(page) ? [page.rule, page.name] : [page.code]);
    const page = pages.find((one) => wordsOf(one).some((word) => word.toLowerCase() === name.toLowerCase()));
    if (page === undefined) {
      // A code is near those of its group alone: the digits of another mean nothing to each other.
      const group = /^TW\d\d/i.exec(name)?.[0].toUpperCase() ?? "";
      const words = pages.flatMap(wordsOf).filter((word) => word.startsWith(group));
      const hint = didYouMean(name, words, "tilewright explain lists the rules; every error names its code");
      return session.fail([
        problemWith(codes.badValue, "RULE|CODE", `there is no rule or diagnostic '${name}'`, { hint }),
      ]);
    }
    session.result(
      isRule(page) ? { ...page, ...ruleOf(page) } : page,
      () => (isRule(page) ? renderRule(page, session.paint) : renderCode(page, session.paint)),
      "verbatim",
    );
    return exitCodes.ok;
  },
});
