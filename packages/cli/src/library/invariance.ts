/** `--batch-invariant`: the kernels of an operation at different m add the products of a row in one order. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { additionsOf, type Compiler, type Plan } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { compileRequest } from "../compile/source.ts";
import { scheduleOf } from "../plan/plan.ts";
import type { KernelRequest } from "./request.ts";

/** Schedules of each backend that are looked at for a kernel, the fastest first. */
const MOST_SCHEDULES = 64;

/** A schedule of a kernel with its order of additions. */
interface Way {
  readonly backend: string;
  readonly schedule: string;
  readonly additions: string;
}

/** Requests whose rows meet the same columns: of one operation and architecture, all but m alike. */
const familyOf = ({ operation, target, problem: { n, k } }: KernelRequest): string =>
  JSON.stringify([operation, target.arch, n, k]);

/** The schedules of a kernel that have an order of additions, best first; the one that it was asked for, if any. */
function waysOf(compiler: Compiler, request: KernelRequest): Checked<readonly Way[]> {
  const { problem, target, backend, schedule, machine } = request;
  const wayOf = (plan: Pick<Plan, "backend" | "schedule">, text: string): readonly Way[] => {
    const additions = additionsOf(plan.backend.tile(problem, plan.schedule, target));
    return additions === null ? [] : [{ backend: plan.backend.id, schedule: text, additions }];
  };
  if (schedule !== null) {
    const [made] = compileRequest(compiler, { ...request, targets: [target] });
    if (made === undefined || !made.ok) return made ?? ok([]);
    const taken = scheduleOf(compiler, made.value);
    return ok(taken === null ? [] : wayOf(taken, schedule));
  }
  const plans = compiler.plan(problem, target, {
    ...{ count: MOST_SCHEDULES, deterministic: true },
    ...(backend === null ? {} : { backend }),
    ...(machine === undefined ? {} : { machine }),
  });
  return plans.ok ? ok(plans.value.flatMap((plan) => wayOf(plan, plan.text))) : plans;
}

/**
 * The requests with backend and schedule decided: of the orders that all kernels of an operation have, the one whose schedules come first, in the sum of their places. Stored winners are not asked. Errors:
 * those of schedules that were asked for, and TW7086 for an operation whose kernels share no order, with the first order of each.
 */
export function withOneOrder(
  compiler: Compiler,
  requests: readonly KernelRequest[],
): Checked<readonly KernelRequest[]> {
  const found: Diagnostic[] = [];
  const decided = new Map<KernelRequest, Way>();
  for (const name of new Set(requests.map(familyOf))) {
    const family = requests.filter((request) => familyOf(request) === name);
    const ways = family.map((request) => {
      const made = waysOf(compiler, request);
      if (!made.ok)
        found.push(...made.error.map((one) => ({ ...one, message: `${request.at}: ${one.message}` })));
      return made.ok ? made.value : null;
    });
    if (ways.includes(null)) continue;
    const firsts = ways.map(
      (list) => new Map((list ?? []).map((way, i) => [way.additions, i] as const).reverse()),
    );
    const places = [...(firsts[0] ?? new Map<string, number>()).keys()]
      .flatMap((additions) => {
        const all = firsts.map((first) => first.get(additions));
        return all.includes(undefined)
          ? []
          : [{ additions, sum: all.reduce<number>((sum, at) => sum + (at ?? 0), 0) }];
      })
      .sort((x, y) => x.sum - y.sum);
    const [best] = places;
    for (const [i, request] of family.entries()) {
      const way = ways[i]?.find(({ additions }) => additions === best?.additions);
      if (way !== undefined) decided.set(request, way);
      else {
        const { operation, at, problem, target } = request;
        const own = ways[i]?.[0]?.additions ?? "no order that holds for all tiles";
        const message = `${operation} at m = ${problem.m} on ${target.arch} shares no order of additions with its other sizes; it has ${own}`;
        found.push(
          problemWith(codes.libraryOrder, at, message, {
            hint: "leave schedules out, or give all sizes schedules with the same instruction and split",
          }),
        );
      }
    }
  }
  if (found.length > 0) return err(found);
  return ok(
    requests.map((request) => {
      const way = decided.get(request);
      return way === undefined ? request : { ...request, backend: way.backend, schedule: way.schedule };
    }),
  );
}
