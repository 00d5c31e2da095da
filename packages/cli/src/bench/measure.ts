/** One problem on a bench: what fails is told with a file that repeats it, and does not keep the others from being measured. */
import { type Bench, type BenchJob, measureSurvivors, type Survivors } from "@tilewright/runtime";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";

/** A measurement as a file: what `bench --job` repeats. */
export interface WorkOrder {
  readonly kind: "tilewright-bench-job";
  readonly job: BenchJob;
  /** Which GPU. */
  readonly index: number;
  /** Path of libcublasLt; null where no cuBLAS takes part. */
  readonly cublas: string | null;
}

/** A kernel that faulted, hung, or took its process with it: what only the GPU shows again. */
const lossCodes: ReadonlySet<string> = new Set(["TW6017", "TW6024", "TW6025"]);

/** What came of an order, and where it is kept when a kernel cost the GPU. */
export interface Measured extends Survivors {
  readonly kept: string | null;
}

export async function measureOrder(context: Context, bench: Bench, order: WorkOrder): Promise<Measured> {
  const survivors = await measureSurvivors(bench, order.job);
  const lost = survivors.failures.some(({ code }) => lossCodes.has(code));
  return { ...survivors, kept: lost ? keep(context, order) : null };
}

function keep(context: Context, order: WorkOrder): string | null {
  const data = JSON.stringify(order);
  const path = `bench-failed-${sha256(data).slice(0, 12)}.json`;
  return writeFiles(context.cwd, [{ path, data }]).ok ? path : null;
}
