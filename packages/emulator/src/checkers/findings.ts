/** Collects what a launch shows: one finding per rule and instruction, with a count. */
import type { SourceLocation } from "@tilewright/core";
import type { CheckName, Finding } from "../api.ts";
import { type Rule, type RuleId, rules } from "./rules.ts";

/** What a finding needs to know of an instruction. */
export interface Site {
  /** Index in the kernel, the identity of the instruction. */
  readonly index: number;
  readonly text: string;
  readonly location: SourceLocation | null;
  /** The line of the program that was compiled. */
  readonly source: SourceLocation | null;
}

/** Where a finding was met. */
export interface Place {
  readonly block: readonly [number, number, number];
  readonly warp: number;
}

export const allChecks: readonly CheckName[] = [
  "bounds",
  "alignment",
  "uninitialised",
  "race",
  "barrier",
  "async",
];

/** Thrown to leave generated code when a launch cannot go on; caught by the launch. */
export class LaunchStopped extends Error {
  override readonly name = "LaunchStopped";
}

export class Findings {
  readonly #found = new Map<string, { finding: Omit<Finding, "count">; count: number }>();
  readonly #checks: ReadonlySet<string>;
  readonly #disabled: ReadonlySet<RuleId>;
  /** Called with each new finding, the index of its instruction and that of the access it is not ordered with, or -1. */
  onFound: ((finding: Omit<Finding, "count">, site: number, other: number) => void) | null = null;

  /** @param disabled rules that report nothing although their check runs. */
  constructor(checks: readonly CheckName[], disabled: readonly RuleId[] = []) {
    this.#checks = new Set<string>([...checks, "deadlock", "fuel", "trap"]);
    this.#disabled = new Set(disabled);
  }

  /** Whether findings of `check` are wanted. */
  wants(check: CheckName): boolean {
    return this.#checks.has(check);
  }

  /** Whether any check runs. Deadlocks, fuel and traps always show. */
  get any(): boolean {
    return allChecks.some((check) => this.wants(check));
  }

  /** Whether findings of `rule` are reported: its check runs, and the rule itself is not switched off. */
  shows(rule: RuleId): boolean {
    return this.#checks.has(rules[rule].check) && !this.#disabled.has(rule);
  }

  /**
   * Record a finding. `message` completes the rule's sentence with what was seen; the first one met is kept.
   * `omission`: this instance is one that compilers leave out, though not every one of its rule. `other`: index of the instruction of the access that it is
   * not ordered with.
   */
  add(
    rule: RuleId,
    site: Site | null,
    place: Place,
    message: () => string,
    omission = false,
    other = -1,
  ): void {
    if (!this.shows(rule)) return;
    const row: Rule = rules[rule];
    const key = `${rule}/${site?.index ?? -1}`;
    const known = this.#found.get(key);
    if (known !== undefined) {
      known.count += 1;
      return;
    }
    const finding = {
      rule,
      check: row.check,
      severity: row.severity,
      message: message(),
      instruction: site?.text ?? "",
      location: site?.location ?? null,
      source: site?.source ?? null,
      omission: omission || row.omission === true,
      block: place.block,
      warp: place.warp,
    };
    this.#found.set(key, { finding, count: 1 });
    this.onFound?.(finding, site?.index ?? -1, other);
  }

  list(): readonly Finding[] {
    return [...this.#found.values()].map(({ finding, count }) => ({ ...finding, count }));
  }
}
