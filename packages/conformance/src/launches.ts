/** The launches of a case: of one problem, or of one kernel at several sizes. */
import {
  checkProblem,
  expertAxisOf,
  fixedProblem,
  type LaunchSizes,
  type Problem,
  problemAt,
  problemOfGroup,
  type Random,
  type SizeName,
  sizeMultiple,
  sizeValue,
  symbolicSizes,
} from "@tilewright/core";
import { must } from "./build.ts";
import { pick } from "./random.ts";

/** Sizes at random that a problem leaves to the launch: extents up to half as much again as its own, rows sometimes longer than packed. */
function randomSizes(random: Random, problem: Problem): LaunchSizes {
  const sizes: Partial<Record<SizeName, number>> = {};
  for (const name of symbolicSizes(problem)) {
    const range = problem.symbolic?.[name];
    const own = sizeValue(problem, name);
    if (range === undefined || own === null || !["m", "n", "k", "batch"].includes(name)) continue;
    const { min, max, multiple } = range;
    const wanted = random.integer(min, Math.min(max, Math.ceil(own * 1.5) + multiple));
    sizes[name] = Math.max(min, wanted - (wanted % multiple));
  }
  const packed = must(problemAt(problem, sizes));
  for (const name of symbolicSizes(problem)) {
    const { multiple } = problem.symbolic?.[name] ?? { multiple: 1 };
    const least = sizeValue(packed, name);
    // Longer rows need longer strides, which follow.
    if (/^ld[abcd]$/.test(name) && least !== null)
      sizes[name] = least + multiple * pick(random, [0, 0, 1, 3]);
  }
  return sizes;
}

/**
 * Groups of a launch of a grouped problem: one at the problem's own sizes, the second without rows or columns, the third without chunks (k is 0: what it stores is
 * made of zeros and C), the others at random. Of experts the second has no rows, the third one.
 */
export function groupProblems(random: Random, problem: Problem): readonly Problem[] {
  const { batch } = problem;
  if (batch.kind !== "grouped") throw new TypeError("groupProblems takes a grouped problem");
  if (batch.rows !== undefined) {
    const axis = expertAxisOf(problem);
    let left = problem[axis];
    const multiple = sizeMultiple(problem, axis);
    return Array.from({ length: batch.count }, (_, i): Problem => {
      const most = batch.rows === "counts" ? problem[axis] : left;
      const few = (i - 1) * multiple;
      const wanted = i === 0 ? Math.ceil(most / 2) : Math.min(most, i < 3 ? few : random.integer(0, most));
      const count = wanted - (wanted % multiple);
      left -= count;
      return must(problemOfGroup(problem, { [axis]: count }));
    });
  }
  return Array.from({ length: batch.count }, (_, i): Problem => {
    if (i === 0) return must(problemOfGroup(problem, {}));
    if (i === 1) return { ...must(problemOfGroup(problem, {})), [pick(random, ["m", "n"])]: 0 };
    const sizes = randomSizes(random, problem);
    return must(problemOfGroup(problem, i === 2 ? { ...sizes, k: 0 } : sizes));
  });
}

/** Problems of the launches of one kernel: the problem itself; or its own sizes, then `count` others at random. */
export function launchProblems(random: Random, problem: Problem, count: number): readonly Problem[] {
  if (problem.symbolic === undefined) return [problem];
  const others = Array.from({ length: count }, () => must(problemAt(problem, randomSizes(random, problem))));
  for (const each of others) {
    const [fault] = checkProblem(each);
    if (fault) throw new Error(`${fault.at}: ${fault.message}`);
  }
  return [fixedProblem(problem), ...others];
}
