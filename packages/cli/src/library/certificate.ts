/** What a kernel of a library was checked by before it ships: every completion order on the emulator, and a GPU's bits where one is here. */

import {
  type Certificate,
  type Checked,
  defineProblem,
  err,
  type Operand,
  ok,
  type Problem,
  type ProblemRequest,
} from "@tilewright/core";
import { rules } from "@tilewright/emulator";
import { type Artifact, addsAsTheyCome, requestOfAttention } from "@tilewright/ir";
import { compileRequest } from "../compile/source.ts";
import { compilerOf } from "../compiler.ts";
import { ordersOf } from "../emulation/flags.ts";
import { sha256 } from "../files/hash.ts";
import type { Session } from "../kit/command.ts";
import { attentionOf } from "../request/attention.ts";
import { type ProgramRequest, programOf } from "../request/request.ts";
import { openRunDevice, type RunDevice } from "../run/device.ts";
import { execute } from "../run/execute.ts";
import { type Inputs, randomInputs } from "../run/inputs.ts";
import { version } from "../version.ts";
import type { KernelRequest } from "./request.ts";

/** Multiply-adds that an order may take: a second of emulation on tensor cores. */
const MOST_WORK = 2 ** 25;
const MOST_BATCH = 2;
/** Tiles keep their edges: a size shrinks by whole multiples of this. */
const GRAIN = 128;
const SEED = 1;

const workOf = ({ m, n, k }: { readonly m: number; readonly n: number; readonly k: number }) => m * n * k;

/** The problem at sizes that the emulator runs in seconds; the same one where it does as it is. */
function reachable(problem: Problem): Checked<Problem> {
  const copies = problem.batch.kind === "none" ? 1 : Math.min(problem.batch.count, MOST_BATCH);
  const sizes = { m: problem.m, n: problem.n, k: problem.k };
  for (;;) {
    if (workOf(sizes) * copies <= MOST_WORK) break;
    const name = (["m", "n", "k"] as const).reduce((most, each) => (sizes[each] > sizes[most] ? each : most));
    const next = Math.floor(sizes[name] / 2 / GRAIN) * GRAIN + (sizes[name] % GRAIN);
    if (next >= sizes[name] || next < 1) break;
    sizes[name] = next;
  }
  if (workOf(sizes) === workOf(problem) && problem.batch.kind === "none") return ok(problem);
  const packed = ({ dtype, layout, align }: Operand) => ({ dtype, layout, align });
  const { a, b, c, d, batch, epilogue, blockScales, precision, symbolic, ...rest } = problem;
  const ranges = Object.entries(symbolic ?? {}).flatMap(([name, range]) =>
    range === undefined ? [] : [[name, range] as const],
  );
  const request: ProblemRequest = {
    ...rest,
    ...sizes,
    ...{ a: packed(a), b: packed(b), d: packed(d), ...(c === null ? {} : { c: packed(c) }) },
    // The second matrix of a gated product is as large as B.
    epilogue: epilogue
      .filter(({ kind }) => kind !== "factor")
      .map((step) => ("operand" in step ? { ...step, operand: packed(step.operand) } : step)),
    ...(batch.kind === "none" ? {} : { batch: { kind: batch.kind, count: copies } }),
    ...(blockScales === undefined ? {} : { blockScales }),
    ...(precision === undefined ? {} : { precision }),
    ...(ranges.length === 0 ? {} : { symbolic: Object.fromEntries(ranges) }),
  };
  return defineProblem(request);
}

/** Attention at sizes that the emulator runs in seconds: fewer heads and sequences, then fewer queries and keys, which stay in parts if they were. */
function attentionWithin({
  attention,
}: ProgramRequest): Checked<ProgramRequest & { readonly launched: Problem }> {
  const shared = attention.heads / attention.kvHeads;
  const kvHeads = shared > 1 ? 1 : Math.min(attention.kvHeads, MOST_BATCH);
  const sizes = { queries: attention.queries, keys: attention.keys };
  const work = () =>
    sizes.queries * sizes.keys * (attention.headDim + attention.valueDim) * kvHeads * shared * 2;
  while (work() > MOST_WORK && Math.max(sizes.queries, sizes.keys / 4) > GRAIN) {
    const name = sizes.queries > sizes.keys / 4 ? "queries" : "keys";
    sizes[name] = Math.floor(sizes[name] / 2 / GRAIN) * GRAIN + (sizes[name] % GRAIN);
  }
  const made = attentionOf({
    ...{ ...requestOfAttention(attention), ...sizes, kvHeads, heads: kvHeads * shared },
    batch: Math.min(attention.batch, MOST_BATCH),
  });
  return made.ok ? ok({ ...programOf(made.value), launched: made.value.launched }) : made;
}

/** Values of the factors that a launch supplies: none that would hide one. */
const factorsOf = ({ alpha, beta }: Problem): { readonly alpha?: number; readonly beta?: number } => ({
  ...(alpha === "runtime" ? { alpha: 1.5 } : {}),
  ...(beta === "runtime" ? { beta: -0.5 } : {}),
});

const giving = (
  device: RunDevice,
  factors: ReturnType<typeof factorsOf>,
): Pick<RunDevice, "kind" | "name" | "gemm"> => ({
  ...{ kind: device.kind, name: device.name },
  gemm: (artifact, inputs, knobs) => device.gemm(artifact, inputs, { ...knobs, ...factors }),
});

/** The kernel itself, or one of the same schedule at sizes within reach. */
function kernelOf(session: Session, request: KernelRequest, artifact: Artifact): Checked<Artifact> {
  const { target, deterministic } = request;
  if (request.program !== undefined) {
    const within = attentionWithin(request.program);
    if (!within.ok || within.value.text === request.program.text) return within.ok ? ok(artifact) : within;
    const { launched: problem, ...program } = within.value;
    const wanted = { ...request, problem, program, targets: [target], schedule: artifact.schedule };
    const [made] = compileRequest(compilerOf(session.context), { ...wanted, backend: artifact.backend });
    return made ?? err([]);
  }
  const problem = reachable(request.problem);
  if (!problem.ok || problem.value === request.problem) return problem.ok ? ok(artifact) : problem;
  const { schedule } = artifact.manifest.plan;
  const wanted = { ...request, problem: problem.value, targets: [target], deterministic, schedule };
  const [made] = compileRequest(compilerOf(session.context), { ...wanted, backend: artifact.backend });
  return made ?? err([]);
}

/**
 * The certificate of a kernel of a library; `gpu`: with the bits of a GPU that is here. Errors: hazards, wrong numbers (a GPU's, too), orders that do not agree, each with the place that
 * asks for the kernel; launches that a GPU refuses; a schedule that does not fit smaller sizes.
 */
export async function certificateOf(
  session: Session,
  request: KernelRequest,
  artifact: Artifact,
  gpu: boolean,
): Promise<Checked<Certificate>> {
  const kernel = kernelOf(session, request, artifact);
  const at = `${request.at}, its certificate on ${request.target.arch}`;
  const place = <T>(result: Checked<T>): Checked<T> =>
    result.ok ? result : err(result.error.map((one) => ({ ...one, message: `${at}: ${one.message}` })));
  if (!kernel.ok) return place(kernel);
  const { problem, program, ptx } = kernel.value;
  const random = randomInputs(problem, { distribution: { kind: "normal" }, seed: SEED });
  const factors = factorsOf(problem);
  const inputs = { ...random, reference: { ...random.reference, ...factors } };
  const orders = ordersOf("all");
  const options = { orders, seed: SEED, hazards: "all", check: true } as const;
  const { arch } = request.target;
  const emulator = await openRunDevice({ kind: "emulator", arch, isolation: false });
  if (!emulator.ok) return place(emulator);
  const ran = await execute(
    session,
    giving(emulator.value, factors),
    kernel.value,
    inputs,
    options,
    `${program.name}.ptx`,
  );
  emulator.value.close();
  if (!ran.ok) return place(ran);
  if (ran.value.wrong.length > 0) return place(err(ran.value.wrong));
  const d = sha256(ran.value.d);
  const onDevice = gpu ? await onGpu(session, kernel.value, inputs, d, arch, factors) : ok(null);
  if (!onDevice.ok) return place(onDevice);
  const { m, n, k, batch } = problem;
  return ok({
    kernel: kernel.value === artifact ? "own" : "smaller",
    sizes: { m, n, k, batch: batch.kind === "none" ? 1 : batch.count },
    ptx: sha256(ptx),
    emulator: { version, orders: [...orders], seed: SEED, rules: Object.keys(rules) },
    boundRatio: ran.value.check?.boundRatio ?? 0,
    d,
    gpu: onDevice.value,
  });
}

/** What a GPU of this machine makes of the same inputs; null without one that runs the kernel. Errors: wrong numbers, and launches that fail. */
async function onGpu(
  session: Session,
  artifact: Artifact,
  inputs: Inputs,
  d: string,
  arch: string,
  factors: ReturnType<typeof factorsOf>,
): Promise<Checked<Certificate["gpu"]>> {
  const device = await openRunDevice({ kind: "auto", arch, isolation: true });
  if (!device.ok) return ok(null);
  const { kind, name } = device.value;
  try {
    if (kind !== "cuda") return ok(null);
    const options = { orders: ["eager"], seed: SEED, hazards: "none", check: true } as const;
    const ran = await execute(
      session,
      giving(device.value, factors),
      artifact,
      inputs,
      options,
      `${artifact.program.name}.ptx`,
    );
    const on = <T extends { readonly message: string }>(one: T): T => ({
      ...one,
      message: `on ${name}: ${one.message}`,
    });
    if (!ran.ok) return err(ran.error.map(on));
    if (ran.value.wrong.length > 0) return err(ran.value.wrong.map(on));
    const bits = sha256(ran.value.d);
    return ok({
      name,
      d: bits,
      bits: bits === d ? "equal" : addsAsTheyCome(artifact.program) ? "unordered" : "differ",
    });
  } finally {
    device.value.close();
  }
}
