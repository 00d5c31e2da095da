/** cuBLASLt as a peer: one product described once, its algorithms ready to be queued on any buffer set. */
import { type Checked, type Diagnostic, err, ok, type Problem } from "@tilewright/core";
import { measuringProblem } from "../timing/diagnostics.ts";
import type { Contender } from "../timing/stream.ts";
import {
  algoConfig,
  descAttribute,
  epilogueBit,
  layoutAttribute,
  notSupported,
  preferenceAttribute,
  statusNames,
} from "./enums.ts";
import type { CublasAlgorithm, CublasLt, CublasResult } from "./library.ts";
import { type MatmulPlan, type PlanMatrix, planMatmul } from "./plan.ts";

/** Addresses of one buffer set. */
export interface PeerBuffers {
  readonly a: bigint;
  readonly b: bigint;
  readonly c: bigint | null;
  readonly d: bigint;
  /** Factors of A and B. */
  readonly sfa?: bigint;
  readonly sfb?: bigint;
  /** By step of the epilogue. */
  readonly steps: ReadonlyMap<number, bigint>;
}

export interface PeerOptions {
  readonly stream: bigint;
  readonly workspace: bigint;
  readonly workspaceBytes: number;
  /** How many algorithms to ask the heuristic for. */
  readonly algorithms: number;
}

/** 64 MiB: what cuBLAS itself takes on Hopper is 32; more lets its split-K variants take part. */
export const peerWorkspaceBytes = 64 * 2 ** 20;

/** One algorithm of the heuristic, in its order. */
export interface PeerAlgorithm {
  readonly contender: Contender;
  /** Its configuration, for people: `algo 67 tile 20 stages 30 split 1`. */
  readonly label: string;
  readonly workspaceBytes: number;
}

interface Handles {
  readonly desc: bigint;
  readonly a: bigint;
  readonly b: bigint;
  readonly c: bigint;
  readonly d: bigint;
}

export class CublasPeer {
  readonly #library: CublasLt;
  readonly #handle: bigint;
  readonly #plan: MatmulPlan;
  readonly #handles: Handles;
  readonly #sets: readonly PeerBuffers[];
  readonly #options: PeerOptions;
  readonly #undo: (() => void)[];
  readonly algorithms: readonly PeerAlgorithm[];

  private constructor(
    library: CublasLt,
    handle: bigint,
    plan: MatmulPlan,
    handles: Handles,
    found: readonly CublasAlgorithm[],
    sets: readonly PeerBuffers[],
    options: PeerOptions,
    undo: (() => void)[],
  ) {
    this.#library = library;
    this.#handle = handle;
    this.#plan = plan;
    this.#handles = handles;
    this.#sets = sets;
    this.#options = options;
    this.#undo = undo;
    this.algorithms = found.map((algorithm, index) => ({
      contender: { name: `cublas[${index}]`, launch: (set) => this.#launch(algorithm, set) },
      label: labelOf(library, algorithm),
      workspaceBytes: algorithm.workspaceBytes,
    }));
  }

  /**
   * Describe `problem` and ask for algorithms. Errors: TW6043 what the library cannot compute; TW6042 when a call fails.
   * Everything made on the way is given back on failure.
   */
  static open(
    library: CublasLt,
    problem: Problem,
    sets: readonly PeerBuffers[],
    options: PeerOptions,
  ): Checked<CublasPeer> {
    const plan = planMatmul(problem);
    if (!plan.ok) return plan;
    const undo: (() => void)[] = [];
    const made = prepare(library, plan.value, sets, options, undo);
    if (made.ok) {
      const { handle, handles, algorithms } = made.value;
      return ok(new CublasPeer(library, handle, plan.value, handles, algorithms, sets, options, undo));
    }
    for (const release of undo.reverse()) release();
    return made;
  }

  close(): void {
    for (const release of this.#undo.splice(0).reverse()) release();
  }

  #launch(algorithm: CublasAlgorithm, set: number): Checked<true> {
    const buffers = this.#sets[set];
    if (buffers === undefined) throw new RangeError(`there is no buffer set ${set}`);
    const plan = this.#plan;
    const handles = this.#handles;
    const { stream, workspace, workspaceBytes } = this.#options;
    const biased = this.#setBias(buffers);
    if (!biased.ok) return biased;
    for (const [attribute, value] of factorPointers(plan, buffers)) {
      const set = checked(
        "cublasLtMatmulDescSetAttribute",
        this.#library.descSet(handles.desc, attribute, value),
      );
      if (!set.ok) return set;
    }
    return checked(
      "cublasLtMatmul",
      this.#library.matmul({
        handle: this.#handle,
        desc: handles.desc,
        alpha: plan.alpha,
        beta: plan.beta,
        a: buffers[plan.first],
        aLayout: handles.a,
        b: buffers[plan.second],
        bLayout: handles.b,
        c: buffers.c ?? buffers.d,
        cLayout: handles.c,
        d: buffers.d,
        dLayout: handles.d,
        algorithm: algorithm.bytes,
        workspace,
        workspaceBytes,
        stream,
      }),
    );
  }

  /** The bias is an attribute of the descriptor, so it changes with the buffer set. */
  #setBias(buffers: PeerBuffers): Checked<true> {
    const { bias } = this.#plan;
    if (bias === null) return ok(true);
    const address = buffers.steps.get(bias.step) ?? 0n;
    return checked(
      "cublasLtMatmulDescSetAttribute",
      this.#library.descSet(this.#handles.desc, descAttribute.biasPointer, u64(address)),
    );
  }
}

/** Factors are attributes of the descriptor, too. */
const factorPointers = (
  { first, second, scales }: MatmulPlan,
  buffers: PeerBuffers | undefined,
): readonly (readonly [attribute: number, value: Uint8Array])[] =>
  scales === null
    ? []
    : [
        [descAttribute.aScalePointer, u64(buffers?.[`sf${first}`] ?? 0n)],
        [descAttribute.bScalePointer, u64(buffers?.[`sf${second}`] ?? 0n)],
      ];

interface Prepared {
  readonly handle: bigint;
  readonly handles: Handles;
  readonly algorithms: readonly CublasAlgorithm[];
}

/** Every object in the order that the library wants; what gives each back is entered in `undo`. */
function prepare(
  library: CublasLt,
  plan: MatmulPlan,
  sets: readonly PeerBuffers[],
  options: PeerOptions,
  undo: (() => void)[],
): Checked<Prepared> {
  const make = (
    call: string,
    created: CublasResult<bigint>,
    destroy: (handle: bigint) => CublasResult<true>,
  ): Checked<bigint> => {
    const made = checked(call, created);
    if (made.ok) undo.push(() => void destroy(made.value));
    return made;
  };
  const handle = make("cublasLtCreate", library.create(), (of) => library.destroy(of));
  if (!handle.ok) return handle;
  const desc = make("cublasLtMatmulDescCreate", library.descCreate(plan.compute, plan.scale), (of) =>
    library.descDestroy(of),
  );
  if (!desc.ok) return desc;
  const attributes: readonly (readonly [attribute: number, value: Uint8Array])[] = [
    [descAttribute.transA, i32(plan.transA)],
    [descAttribute.transB, i32(plan.transB)],
    ...(plan.epilogue === epilogueBit.none ? [] : [[descAttribute.epilogue, i32(plan.epilogue)] as const]),
    ...(plan.fast ? [[descAttribute.fastAccumulation, Uint8Array.of(1)] as const] : []),
    ...(plan.scales === null
      ? []
      : [
          [descAttribute.aScaleMode, i32(plan.scales[0])] as const,
          [descAttribute.bScaleMode, i32(plan.scales[1])] as const,
        ]),
    ...factorPointers(plan, sets[0]),
    ...(plan.bias === null
      ? []
      : [
          [descAttribute.biasDataType, i32(plan.bias.type)] as const,
          // The heuristic looks at the pointer's alignment.
          [descAttribute.biasPointer, u64(sets[0]?.steps.get(plan.bias.step) ?? 0n)] as const,
        ]),
  ];
  for (const [attribute, value] of attributes) {
    const set = checked("cublasLtMatmulDescSetAttribute", library.descSet(desc.value, attribute, value));
    if (!set.ok) return set;
  }
  const layout = (matrix: PlanMatrix): Checked<bigint> => {
    const made = make(
      "cublasLtMatrixLayoutCreate",
      library.layoutCreate(matrix.type, matrix.rows, matrix.columns, matrix.ld),
      (of) => library.layoutDestroy(of),
    );
    if (!made.ok || plan.batch === 1) return made;
    const { batchCount, stridedBatchOffset } = layoutAttribute;
    for (const [attribute, value] of [
      [batchCount, i32(plan.batch)],
      [stridedBatchOffset, u64(BigInt(matrix.stride))],
    ] as const) {
      const set = checked(
        "cublasLtMatrixLayoutSetAttribute",
        library.layoutSet(made.value, attribute, value),
      );
      if (!set.ok) return set;
    }
    return made;
  };
  const a = layout(plan.a);
  if (!a.ok) return a;
  const b = layout(plan.b);
  if (!b.ok) return b;
  const c = layout(plan.c);
  if (!c.ok) return c;
  const d = layout(plan.d);
  if (!d.ok) return d;
  const preference = make("cublasLtMatmulPreferenceCreate", library.preferenceCreate(), (of) =>
    library.preferenceDestroy(of),
  );
  if (!preference.ok) return preference;
  const limited = checked(
    "cublasLtMatmulPreferenceSetAttribute",
    library.preferenceSet(
      preference.value,
      preferenceAttribute.maxWorkspaceBytes,
      u64(BigInt(options.workspaceBytes)),
    ),
  );
  if (!limited.ok) return limited;
  const handles: Handles = { desc: desc.value, a: a.value, b: b.value, c: c.value, d: d.value };
  const algorithms = ask(library, handle.value, handles, preference.value, options.algorithms);
  return algorithms.ok ? ok({ handle: handle.value, handles, algorithms: algorithms.value }) : algorithms;
}

function ask(
  library: CublasLt,
  handle: bigint,
  handles: Handles,
  preference: bigint,
  count: number,
): Checked<readonly CublasAlgorithm[]> {
  const found = library.heuristic(handle, handles.desc, handles, preference, count);
  const none = found.ok ? found.value.length === 0 : found.error === notSupported;
  if (none)
    return err([
      measuringProblem(
        "cublasUnfit",
        "cublaslt",
        "cuBLASLt has no algorithm for this product",
        "its fp8 kernels want A row-major and B column-major, sizes and leading dimensions of multiples of 16 bytes; it is measured without cuBLAS",
      ),
    ]);
  return checked("cublasLtMatmulAlgoGetHeuristic", found);
}

function labelOf(library: CublasLt, algorithm: CublasAlgorithm): string {
  const of = (attribute: number): string =>
    String(library.algorithmConfig(algorithm.bytes, attribute) ?? "?");
  const { id, tile, stages, splitK, cluster } = algoConfig;
  return `algo ${of(id)} tile ${of(tile)} stages ${of(stages)} split ${of(splitK)} cluster ${of(cluster)}`;
}

function i32(value: number): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(4));
  new DataView(bytes.buffer).setInt32(0, value, true);
  return bytes;
}

function u64(value: bigint): Uint8Array {
  const bytes = new Uint8Array(new ArrayBuffer(8));
  new DataView(bytes.buffer).setBigUint64(0, value, true);
  return bytes;
}

/** A status as a diagnostic with the name of the call. */
function checked<T>(call: string, result: CublasResult<T>): Checked<T> {
  if (result.ok) return result;
  const name = statusNames[result.error] ?? "an unknown status";
  const problem: Diagnostic = measuringProblem(
    "cublasCall",
    "cublaslt",
    `${call} failed: ${name} (${result.error})`,
    "CUBLASLT_LOG_LEVEL=2 in the environment makes the library say why",
  );
  return err([problem]);
}
