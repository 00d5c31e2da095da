/**
 * One problem, measured in a process of its own: a kernel that hangs, faults or takes the process down costs its own measurement and no
 * more. The order goes in on standard input, the outcome comes out on standard output, both JSON.
 */
import { type Checked, type Diagnostic, err, ok } from "@tilewright/ir";
import { type BenchJob, type BenchMachine, type BenchOutcome, BenchSession } from "@tilewright/runtime";
import { codes, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { writeFiles } from "../files/atomic.ts";
import { sha256 } from "../files/hash.ts";
import type { BenchPorts } from "./ports.ts";

export interface WorkOrder {
  readonly kind: "tilewright-bench-job";
  readonly job: BenchJob;
  /** Which GPU. */
  readonly index: number;
  /** Path of libcublasLt; null where no cuBLAS takes part. */
  readonly cublas: string | null;
}

export type WorkAnswer =
  | { readonly ok: true; readonly outcome: BenchOutcome }
  | { readonly ok: false; readonly diagnostics: readonly Diagnostic[] };

/** Measure in this process. */
export async function measureHere(
  context: Context,
  order: WorkOrder,
  ports: BenchPorts,
): Promise<Checked<BenchOutcome>> {
  const driver = await ports.driver();
  if (!driver.ok) return driver;
  const cublas =
    order.cublas === null ? null : await ports.cublas({ library: order.cublas, env: context.env });
  if (cublas !== null && !cublas.ok) return cublas;
  const nvml = await ports.nvml();
  const machine: BenchMachine = {
    driver: driver.value,
    index: order.index,
    nvml: nvml.ok ? nvml.value : null,
    busId: await busIdOf(driver.value, order.index, ports),
    cublas: cublas?.value ?? null,
    ...(ports.stream === undefined ? {} : { stream: ports.stream }),
  };
  const session = BenchSession.open(machine);
  if (!session.ok) return session;
  try {
    const outcome = session.value.run(order.job);
    if (!outcome.ok || nvml.ok) return outcome;
    return ok({ ...outcome.value, notes: [...outcome.value.notes, ...nvml.error] });
  } finally {
    session.value.close();
  }
}

async function busIdOf(
  driver: BenchMachine["driver"],
  index: number,
  ports: BenchPorts,
): Promise<string | null> {
  const started = driver.init();
  const device = started.ok ? driver.deviceGet(index) : started;
  return device.ok ? ports.busId(driver, device.value) : null;
}

/** Measure in a child process; what goes wrong there is a diagnostic, with a file that repeats it. */
export async function measureApart(
  context: Context,
  order: WorkOrder,
  ports: BenchPorts,
  timeoutMs: number,
): Promise<Checked<BenchOutcome>> {
  const text = JSON.stringify(order);
  const ended = await ports.self(["bench", "--job", "-", "--json"], text, timeoutMs);
  const answer = ended.kind === "exited" ? readAnswer(ended.stdout) : null;
  if (answer !== null) return answer.ok ? ok(answer.outcome) : err(answer.diagnostics);
  const { m, n, k } = order.job.problem;
  const what = `measuring ${m}x${n}x${k} (${order.job.candidates.map(({ name }) => name).join(", ")})`;
  const how = {
    hung: () => `did not end within ${timeoutMs / 1000} s and was stopped`,
    failed: () => `could not start a process: ${ended.kind === "failed" ? ended.reason : ""}`,
    exited: () => {
      const { code, signal, stderr } = ended as Extract<typeof ended, { kind: "exited" }>;
      const last = stderr.trim().split("\n").at(-1) ?? "";
      return `ended with ${signal ?? `exit code ${code}`} and no result${last === "" ? "" : `: ${last}`}`;
    },
  } as const;
  const replay = `bench-failed-${sha256(text).slice(0, 12)}.json`;
  const kept = writeFiles(context.cwd, [{ path: replay, data: text }]);
  const hint = kept.ok
    ? `tilewright bench --job ${replay} --json repeats it in this process`
    : "the order could not be written";
  return err([problemWith(codes.benchLost, "bench", `${what} ${how[ended.kind]()}`, { hint })]);
}

function readAnswer(text: string): WorkAnswer | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "ok" in value ? (value as WorkAnswer) : null;
  } catch {
    return null;
  }
}
