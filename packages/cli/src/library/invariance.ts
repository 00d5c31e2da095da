/** `--batch-invariant`: the kernels of an operation at different m add the products of a row in one order. */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/core";
import { additionsOf, type Compiler, type Plan, predictionOf, usualMachine } from "@tilewright/ir";
import { codes, problemWith } from "../codes.ts";
import { compileRequest } from "../compile/source.ts";
import { scheduleOf } from "../plan/plan.ts";
import type { KernelRequest } from "./request.ts";

/** Schedules of each backend that are looked at for a kernel, the fastest first: of 128 rows, which like to share a K of 14336, the first with one sum by wgmma is the 76th. */
const MOST_SCHEDULES = 192;

/** A schedule of a kernel with its order of additions. */
interface Way {
  readonly backend: string;
  readonly schedule: string;
  readonly additions: string;
  /** Microseconds that the model predicts; null where it has no numbers. */
  readonly us: number | null;
}

/** Requests whose rows meet the same columns: of one operation and architecture, all but m alike. */
const familyOf = ({ operation, target, problem: { n, k } }: KernelRequest): string =>
  JSON.stringify([operation, target.arch, n, k]);

/** The schedules of a kernel that have an order of additions, best first; the one that it was asked for, if any. */
function waysOf(compiler: Compiler, request: KernelRequest): Checked<readonly Way[]> {
  const { problem, target, backend, schedule, machine } = request;
  const wayOf = (plan: Pick<Plan, "backend" | "schedule">, text: string): readonly Way[] => {
    const additions = additionsOf(plan.backend.tile(problem, plan.schedule, target));
    if (additions === null) return [];
    const { timeUs = null } =
      predictionOf(plan.backend, problem, plan.schedule, target, machine ?? usualMachine(target)) ?? {};
    return [{ backend: plan.backend.id, schedule: text, additions, us: timeUs }];
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

/** The fastest schedule of each order of a kernel, and what it costs: the logarithm of its time over the least, or where none are predicted its place. */
function bestByOrder(
  ways: readonly Way[],
): ReadonlyMap<string, { readonly way: Way; readonly cost: number }> {
  const least = Math.min(...ways.map(({ us }) => us ?? Number.POSITIVE_INFINITY));
  const best = new Map<string, { readonly way: Way; readonly cost: number }>();
  for (const [place, way] of ways.entries()) {
    const cost = Number.isFinite(least) ? Math.log((way.us ?? Number.POSITIVE_INFINITY) / least) : place;
    if (cost < (best.get(way.additions)?.cost ?? Number.POSITIVE_INFINITY))
      best.set(way.additions, { way, cost });
  }
  return best;
}

/**
 * The requests with backend and schedule decided: of the orders that all kernels of an operation have, the one with the least geometric mean of predicted times, and of each kernel its fastest schedule of that order. Stored winners are not asked. Errors:
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
    const orders = ways.map((list) => bestByOrder(list ?? []));
    const shared = [...(orders[0]?.keys() ?? [])]
      .flatMap((additions) => {
        const all = orders.flatMap((order) => order.get(additions)?.cost ?? []);
        return all.length < orders.length
          ? []
          : [{ additions, sum: all.reduce((sum, cost) => sum + cost, 0) }];
      })
      .sort((x, y) => x.sum - y.sum);
    const [best] = shared;
    for (const [i, request] of family.entries()) {
      const way = best && orders[i]?.get(best.additions)?.way;
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
