/** Hazard rules by the names that --disable takes. */

import { didYouMean } from "@tilewright/core";
import { type RuleId, rules } from "@tilewright/emulator";
import { flagRegistry, meta, reading } from "../kit/flags.ts";

const ruleIds = Object.keys(rules) as RuleId[];

/** Rules by number (`H010`), by name (`race-write-after-read`) and by check (`race`, all of its rules). */
const byWord: ReadonlyMap<string, readonly RuleId[]> = new Map(
  ruleIds.flatMap((rule): readonly (readonly [string, readonly RuleId[]])[] => {
    const { name, check } = rules[rule];
    return [
      [rule.toLowerCase(), [rule]],
      [name, [rule]],
      [check, ruleIds.filter((other) => rules[other].check === check)],
    ];
  }),
);

/** The rules that a word names, or why it names none; `codes` are known words that are no rules. */
export function rulesNamed(word: string, codes: readonly string[] = []): readonly string[] | string {
  const found = byWord.get(word.toLowerCase()) ?? codes.filter((code) => code === word);
  if (found.length > 0) return found;
  if (word === "") return "an empty entry in the list";
  const near = didYouMean(
    word,
    [...ruleIds, ...byWord.keys(), ...codes],
    "tilewright explain lists the rules",
  );
  return `there is no rule '${word}'; ${near}`;
}

/** `--disable H010,async-overwritten,race`: rules that shall not report. Every unknown one is named with the nearest. */
export const disableFlag = () =>
  reading((value) => {
    const words = value.split(",").map((word) => word.trim());
    const wrong = words.map((word) => rulesNamed(word)).filter((found) => typeof found === "string");
    return wrong.length > 0
      ? wrong
      : { value: [...new Set(words.flatMap((word) => byWord.get(word.toLowerCase()) ?? []))] };
  })
    .optional()
    .register(flagRegistry, meta("rules that shall not report, by number, name or check", "H010,race,…", {}));
