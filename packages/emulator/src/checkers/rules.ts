/** Every rule the emulator checks: one row of data/rules.json per rule. Numbers are stable and never reused; docs/hazards/README.md explains each. */
import data from "../../data/rules.json" with { type: "json" };
import type { CheckName, Finding } from "../api.ts";

export interface Rule {
  readonly name: string;
  /** The switch that turns the rule on; deadlock, fuel and trap cannot be turned off, since they end the launch. */
  readonly check: CheckName | "deadlock" | "fuel" | "trap";
  readonly severity: Finding["severity"];
  /** What is wrong, in one sentence. */
  readonly sentence: string;
  /** The PTX ISA asks for it and shipped compilers leave it out, since today's hardware works without. */
  readonly omission?: true;
}

export type RuleId = keyof typeof data;

export const rules = data as Readonly<Record<RuleId, Rule>>;

/** Rules of races in global memory: what they need is followed only where one of them is on. */
export const globalRules: readonly RuleId[] = [
  "H092",
  "H093",
  "H094",
  "H095",
  "H096",
  "H097",
  "H098",
  "H099",
  "H100",
];
