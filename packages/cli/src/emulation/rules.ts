/** Hazard rules by the names that --disable takes. */
import { type RuleId, rules } from "@tilewright/emulator";
import { didYouMean } from "@tilewright/ir";
import { z } from "zod";
import { flagRegistry } from "../kit/flags.ts";

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

/** `--disable H010,async-overwritten,race`: rules that shall not report. Every unknown one is named with the nearest. */
export const disableFlag = (group: string) =>
  z
    .string()
    .transform((value, context): readonly RuleId[] => {
      const words = value.split(",").map((word) => word.trim());
      const found = words.map((word) => byWord.get(word.toLowerCase()));
      words.forEach((word, k) => {
        if (found[k] !== undefined) return;
        const near = didYouMean(word, [...ruleIds, ...byWord.keys()], "tilewright explain lists the rules");
        context.addIssue({
          code: "custom",
          message:
            word === "" ? `an empty entry in the list '${value}'` : `there is no rule '${word}'; ${near}`,
          input: value,
        });
      });
      return [...new Set(found.flatMap((rule) => rule ?? []))];
    })
    .optional()
    .register(flagRegistry, {
      summary: "rules that shall not report, by number, name or check",
      hint: "H010,race,…",
      aliases: [],
      negatable: false,
      longLetters: false,
      group,
    });
