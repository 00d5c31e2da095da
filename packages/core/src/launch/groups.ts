/** Launches of a grouped problem: the table of its groups, and what the launch's expressions mean. */
import type { Checked, Diagnostic } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import type { Constraint, GroupRow, KernelSpec, LaunchExpr } from "../manifest.ts";
import { checkProblem } from "../problem/check.ts";
import type { Operand, Problem } from "../problem.ts";
import { evaluateConstraints, evaluateLaunchExpr, type LaunchEnvironment } from "./evaluate.ts";

/** Whether a group has nothing to do: D has no elements. With k = 0 it has them, and what the epilogue makes of beta * C is stored there. */
export const isEmptyGroup = ({ m, n }: Pick<Problem, "m" | "n">): boolean => m === 0 || n === 0;

/** Operands that a group with k = 0 has no elements of. */
const factors: ReadonlySet<string> = new Set(["a", "b"]);
const needsNoAddress = (name: string, { k }: LaunchEnvironment): boolean => k === 0 && factors.has(name);

/** `checkProblem` of one group, which may have k = 0: A and B are then nowhere and anyhow. */
export function checkGroup(problem: Problem): readonly Diagnostic[] {
  if (problem.k !== 0) return checkProblem(problem);
  const { a, b } = problem;
  const packed = (operand: Operand, extents: readonly [number, number]): Operand => ({
    ...operand,
    ld: Math.ceil(extents[operand.layout === "row" ? 1 : 0] / WHOLE_BYTES) * WHOLE_BYTES,
  });
  const { m, n } = problem;
  return checkProblem({ ...problem, k: 1, a: packed(a, [m, 1]), b: packed(b, [1, n]) });
}

/** Elements of any dtype that end with a byte. */
const WHOLE_BYTES = 8;

/** A group of a launch: values of the names in expressions (`launchEnvironment` of its problem), and the addresses of its operands; empty groups need none, those with k = 0 none of A and B. */
export interface GroupArguments {
  readonly env: LaunchEnvironment;
  readonly addresses: Readonly<Record<string, bigint>>;
}

/** A group by its number in the place of what is wrong with it. */
const ofGroup = (index: number, found: readonly Diagnostic[]): readonly Diagnostic[] =>
  found.map((each) => ({ ...each, at: `groups[${index}]` }));

const isEmpty = (env: LaunchEnvironment): boolean => isEmptyGroup({ m: env.m ?? 0, n: env.n ?? 0 });

/**
 * The bytes of a table, for the buffer behind parameter `groups`. Rows of empty groups are 0, and addresses of A and B where k is and none are given. Errors, all at once: those of the fields' expressions, TW1308 for
 * an operand without an address, or at one that is not aligned as the row says.
 */
export function groupTable(row: GroupRow, groups: readonly GroupArguments[]): Checked<Uint8Array> {
  const bytes = new Uint8Array(row.bytes * groups.length);
  const view = new DataView(bytes.buffer);
  const faults: Diagnostic[] = [];
  groups.forEach(({ env, addresses }, index) => {
    if (isEmpty(env)) return;
    for (const field of row.fields) {
      const at = index * row.bytes + field.offset;
      if (field.kind === "size") {
        const value = evaluateLaunchExpr(field.value, env);
        if (value.ok) view.setUint32(at, value.value, true);
        else faults.push(...ofGroup(index, value.error));
        continue;
      }
      const address = addresses[field.name];
      if (address === undefined && needsNoAddress(field.name, env)) continue;
      if (address !== undefined && address % BigInt(field.align) === 0n) view.setBigUint64(at, address, true);
      else
        faults.push({
          code: "TW1308",
          kind: "invalid",
          at: `groups[${index}].${field.name}`,
          message:
            address === undefined
              ? `the group has no address for ${field.name}`
              : `the address of ${field.name} is not a multiple of ${field.align} B`,
          hint: `give ${field.name} an address that is a multiple of ${field.align}`,
        });
    }
  });
  return faults.length === 0 ? ok(bytes) : err(faults);
}

/** Sizes of which a group with k = 0 has none. */
const depths: ReadonlySet<string> = new Set(["k", "lda", "ldb"]);

const mentionsDepth = (expr: LaunchExpr): boolean =>
  typeof expr === "string"
    ? depths.has(expr)
    : typeof expr !== "number" && expr.slice(1).some((each) => mentionsDepth(each as LaunchExpr));

/** Every condition of the manifest, for each group that has work; of one with k = 0 those that are not about A and B. */
export function groupConstraints(
  constraints: readonly Constraint[],
  groups: readonly LaunchEnvironment[],
): readonly Diagnostic[] {
  return groups.flatMap((env, index) => {
    const asked =
      env.k === 0 ? constraints.filter(([, lhs, rhs]) => ![lhs, rhs].some(mentionsDepth)) : constraints;
    const met = isEmpty(env) ? ok(true) : evaluateConstraints(asked, env);
    return met.ok ? [] : ofGroup(index, met.error);
  });
}

/** Of the groups' environments the one for which a kernel's grid is largest along x: that of the launch. Null without groups. */
export function launchOfGroups(
  kernel: Pick<KernelSpec, "launch">,
  groups: readonly LaunchEnvironment[],
): LaunchEnvironment | null {
  let most: { readonly env: LaunchEnvironment; readonly blocks: number } | null = null;
  for (const env of groups) {
    const blocks = evaluateLaunchExpr(kernel.launch.grid[0], env);
    if (blocks.ok && (most === null || blocks.value > most.blocks)) most = { env, blocks: blocks.value };
  }
  return most?.env ?? null;
}
