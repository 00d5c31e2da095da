/**
 * A GPU on which many problems are timed in a short time. Random inputs are laid out once for each dtype, matrices are places in them, and launches are packed when they are
 * first made. The measuring loop is that of `tilewright bench` (idle regime); numbers are checked against float64 at some elements of each kernel.
 */
import {
  decodeArray,
  dtypes,
  launchEnvironment,
  type Problem,
  storageFromBytes,
  workspaceBytes,
} from "@tilewright/core";
import {
  type Contender,
  type CublasLt,
  CublasPeer,
  CudaBuffer,
  type CudaDriver,
  CudaKernel,
  CudaTimingStream,
  Measurement,
  median,
  openKoffiCublasLt,
  openKoffiDriver,
  type PreparedKernel,
  peerWorkspaceBytes,
} from "@tilewright/runtime";
import { CudaContext } from "../../packages/runtime/src/cuda/context.ts";
import { describeDevice, startDriver } from "../../packages/runtime/src/cuda/info.ts";
import { CudaModule } from "../../packages/runtime/src/cuda/module.ts";
import { encodeTensorMap } from "../../packages/runtime/src/cuda/tensor-map.ts";
import { launchRequest } from "../../packages/runtime/src/launch-kernel.ts";
import { InputPool } from "../../packages/runtime/src/timing/inputs.ts";
import type { Made } from "./compile.ts";

/** The value, or an exception with all reasons: what fails here fails one kernel. */
function must<T>(
  result: { ok: true; value: T } | { ok: false; error: readonly { code: string; message: string }[] },
): T {
  if (result.ok) return result.value;
  throw new Error(result.error.map(({ code, message }) => `${code} ${message}`).join("; "));
}

/** Memory that is allocated once: buffers are places in it, whose release gives nothing back. */
interface Land {
  readonly address: bigint;
  readonly size: number;
}

/** Sets of matrices: at least so many bytes of them, or so many sets where all of them stay in L2 anyway. */
const ROTATED = 128e6;
const MOST_SETS = 512;
const SMALL_SETS = 16;
const ALIGN = 256;
const aligned = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN;

/** Elements of each kernel that are compared. */
const SAMPLES = 48;
/** Roundings that a peer may make beside those of sums in f32. */
const SLACK = 8;

/** Bytes of each matrix, and how many sets of them launches walk through. */
function setsOf({ m, n, k, a, b, d }: Problem) {
  const bytesOf = (rows: number, ld: number, dtype: typeof a.dtype): number =>
    aligned((rows * ld * dtypes[dtype].bits) / 8);
  const sizes = {
    a: bytesOf(m, a.ld, a.dtype),
    b: bytesOf(b.layout === "row" ? k : n, b.ld, b.dtype),
    d: bytesOf(m, d.ld, d.dtype),
  };
  const wanted = Math.ceil(ROTATED / (sizes.a + sizes.b + sizes.d));
  return { sizes, sets: wanted > MOST_SETS ? SMALL_SETS : wanted };
}

interface Timed {
  /** Microseconds, medians, as the contenders; null: it failed. */
  readonly us: readonly (number | null)[];
  readonly cublas: number | null;
  readonly failures: readonly string[];
}

export class Bed {
  readonly name: string;
  readonly driverVersion: number;
  readonly cublasVersion: number;
  checks = true;
  readonly #context: CudaContext;
  readonly #cublas: CublasLt;
  readonly #stream: CudaTimingStream;
  readonly #workspace: CudaBuffer;
  readonly #inputs = new Map<string, { readonly land: CudaBuffer; readonly values: Float64Array }>();
  readonly #pools = new Map<string, InputPool>();
  #outputs: CudaBuffer | null = null;
  /** Where the next buffer lies; null: it is allocated. */
  readonly #place: { at: bigint | null };

  private constructor(context: CudaContext, cublas: CublasLt, place: { at: bigint | null }) {
    this.#context = context;
    this.#cublas = cublas;
    this.#place = place;
    this.name = context.info.name;
    this.driverVersion = context.info.driverVersion;
    this.cublasVersion = cublas.version();
    this.#stream = must(CudaTimingStream.open(context));
    this.#workspace = must(CudaBuffer.alloc(context, peerWorkspaceBytes));
  }

  /** `fake`: for tests, in place of what the machine has. */
  static async open(
    fake: { readonly driver: CudaDriver; readonly cublas: CublasLt } | null = null,
  ): Promise<Bed> {
    const driver = fake?.driver ?? must(await openKoffiDriver());
    const place: { at: bigint | null } = { at: null };
    const placed = new Set<bigint>();
    const [alloc, free] = [driver.memAlloc.bind(driver), driver.memFree.bind(driver)];
    const given: Pick<CudaDriver, "memAlloc" | "memFree"> = {
      memAlloc: (size) => {
        if (place.at === null) return alloc(size);
        placed.add(place.at);
        return { ok: true, value: place.at };
      },
      memFree: (address) => (placed.has(address) ? { ok: true, value: true } : free(address)),
    };
    Object.assign(driver, given);
    const described = must(describeDevice(driver, 0, must(startDriver(driver))));
    const context = must(CudaContext.open(driver, described.handle, described.info));
    const cublas = fake?.cublas ?? must(await openKoffiCublasLt({ env: process.env }));
    const handle = must(cublas.create() as never) as bigint;
    Object.assign(cublas, {
      create: () => ({ ok: true, value: handle }),
      destroy: () => ({ ok: true, value: true }),
    });
    return new Bed(context, cublas, place);
  }

  get lost(): boolean {
    return this.#context.lost;
  }

  #at(land: Land, offset: number, size: number): CudaBuffer {
    this.#place.at = land.address + BigInt(offset);
    try {
      return must(CudaBuffer.alloc(this.#context, size));
    } finally {
      this.#place.at = null;
    }
  }

  /** Random elements, at least so many bytes. */
  #inputsOf(
    dtype: Problem["a"]["dtype"],
    bytes: number,
  ): { readonly land: CudaBuffer; readonly values: Float64Array } {
    const known = this.#inputs.get(dtype);
    if (known !== undefined && known.land.size >= bytes) return known;
    known?.land.free();
    const pool = this.#pools.get(dtype) ?? InputPool.make(dtype, "normal", 1);
    this.#pools.set(dtype, pool);
    const land = must(CudaBuffer.alloc(this.#context, Math.max(bytes, 2e8)));
    must(pool.fill(land, 0));
    const values = known?.values ?? Float64Array.from({ length: pool.length }, (_, i) => pool.value(0, i));
    const made = { land, values };
    this.#inputs.set(dtype, made);
    return made;
  }

  #outputsOf(bytes: number): CudaBuffer {
    if (this.#outputs !== null && this.#outputs.size >= bytes) return this.#outputs;
    this.#outputs?.free();
    this.#outputs = must(CudaBuffer.alloc(this.#context, Math.max(bytes, 2e8)));
    return this.#outputs;
  }

  /** Inputs for the largest of these problems. */
  prepare(problems: readonly Problem[]): void {
    const most = new Map<Problem["a"]["dtype"], number>();
    for (const problem of problems) {
      const { sets, sizes } = setsOf(problem);
      const { dtype } = problem.a;
      most.set(dtype, Math.max(most.get(dtype) ?? 0, sets * (sizes.a + sizes.b)));
    }
    for (const [dtype, bytes] of most) this.#inputsOf(dtype, bytes);
  }

  /** Times of kernels of one problem and of cuBLASLt's first choice in the same rounds. */
  time(problem: Problem, made: readonly Made[], seed: number): Timed {
    const { sizes, sets } = setsOf(problem);
    const inputs = this.#inputsOf(problem.a.dtype, sets * (sizes.a + sizes.b));
    const outputs = this.#outputsOf(sets * sizes.d);
    const offsets = (at: number) => ({
      a: at * (sizes.a + sizes.b),
      b: at * (sizes.a + sizes.b) + sizes.a,
      d: at * sizes.d,
    });
    const undo: (() => void)[] = [];
    const buffers: ({ a: CudaBuffer; b: CudaBuffer; d: CudaBuffer } | undefined)[] = [];
    const setAt = (at: number) => {
      const place = offsets(at);
      const made = buffers[at] ?? {
        a: this.#at(inputs.land, place.a, sizes.a),
        b: this.#at(inputs.land, place.b, sizes.b),
        d: this.#at(outputs, place.d, sizes.d),
      };
      if (buffers[at] === undefined)
        undo.push(() => {
          made.a.free();
          made.b.free();
          made.d.free();
        });
      buffers[at] = made;
      return made;
    };
    const failures: string[] = [];
    try {
      const contenders: Contender[] = [];
      const places: (number | null)[] = [];
      const enter = (contender: Contender, what: string, slack: number): number => {
        const fault = this.checks
          ? this.#fault(problem, contender, inputs.values, offsets(0), setAt(0).d, slack)
          : null;
        if (fault !== null) failures.push(`${what}: ${fault}`);
        return contenders.push(contender) - 1;
      };
      for (const one of made)
        try {
          places.push(enter(this.#load(one, problem, setAt, undo), `${one.backend} ${one.schedule}`, 1));
        } catch (error) {
          if (this.lost) throw error;
          failures.push(`${one.backend} ${one.schedule}: ${String(error)}`);
          places.push(null);
        }
      const addresses = Array.from({ length: sets }, (_, at) => {
        const place = offsets(at);
        return {
          a: inputs.land.address + BigInt(place.a),
          b: inputs.land.address + BigInt(place.b),
          c: null,
          d: outputs.address + BigInt(place.d),
          steps: new Map<number, bigint>(),
        };
      });
      const peer = CublasPeer.open(this.#cublas, problem, addresses, {
        stream: this.#context.stream,
        workspace: this.#workspace.address,
        workspaceBytes: peerWorkspaceBytes,
        algorithms: 1,
      });
      if (peer.ok) undo.push(() => peer.value.close());
      const first = peer.ok ? peer.value.algorithms[0]?.contender : undefined;
      const cublas = first === undefined ? null : enter(first, "cublas", SLACK);
      if (contenders.length === 0) return { us: places.map(() => null), cublas: null, failures };
      const measurement = new Measurement(this.#stream, contenders, {
        sets,
        warmupMs: 2,
        budgetMs: 8,
        minRounds: (made[0]?.predicted ?? 0) > 3000 ? 4 : 9,
        maxRounds: 30,
        blockMs: 1,
        blocks: 1,
        seed,
      });
      must(measurement.warmUp());
      const { times } = must(measurement.measure("idle"));
      const us = times.map((all) => Number(median(all).toFixed(3)));
      const of = (place: number | null): number | null => (place === null ? null : (us[place] ?? null));
      return { us: places.map(of), cublas: of(cublas), failures };
    } finally {
      if (!this.lost) for (const release of undo.reverse()) release();
    }
  }

  #load(
    { manifest, image, backend }: Made,
    problem: Problem,
    setAt: (at: number) => Readonly<Record<string, CudaBuffer>>,
    undo: (() => void)[],
  ): Contender {
    const context = this.#context;
    const module = must(CudaModule.load(context, image));
    undo.push(() => module.unload());
    const env = launchEnvironment(problem, context.info, { alpha: 1, beta: 1 });
    const bytes = must(workspaceBytes(manifest, env));
    const workspace = bytes === 0 ? null : must(CudaBuffer.alloc(context, bytes));
    if (workspace !== null) {
      undo.push(() => workspace.free());
      must(workspace.fill(0));
    }
    const zeroed =
      workspace !== null && (manifest.workspace?.init ?? "zeroEach") === "zeroEach" ? workspace : null;
    const kernels = manifest.kernels.map((spec) => {
      const kernel = must(module.kernel(spec.entry));
      if (!(kernel instanceof CudaKernel)) throw new TypeError("no kernel of a GPU");
      return { spec, kernel };
    });
    const known = new Map<number, readonly PreparedKernel[]>();
    const prepared = (at: number): readonly PreparedKernel[] => {
      const buffers = { ...setAt(at), ...(workspace === null ? {} : { workspace }) };
      return kernels.map(({ spec, kernel }) =>
        must(kernel.prepare(must(launchRequest(spec, env, buffers, (map) => encodeTensorMap(context, map))))),
      );
    };
    return {
      name: backend,
      launch(at) {
        let launches = known.get(at);
        if (launches === undefined) {
          launches = prepared(at);
          known.set(at, launches);
        }
        if (zeroed !== null)
          must(
            context.call("unseen", (driver) =>
              driver.memsetD8Async(zeroed.address, 0, zeroed.size, context.stream),
            ),
          );
        for (const launch of launches) {
          const queued = launch.launch();
          if (!queued.ok) return queued;
        }
        return { ok: true, value: true };
      },
    };
  }

  /** Why a contender's numbers are wrong: launched twice, then with a poisoned D. */
  #fault(
    problem: Problem,
    contender: Contender,
    values: Float64Array,
    offsets: { readonly a: number; readonly b: number },
    d: CudaBuffer,
    slack: number,
  ): string | null {
    must(contender.launch(0));
    must(d.fill(0xff));
    must(contender.launch(0));
    must(this.#stream.wait());
    const { m, n, k, a, b } = problem;
    const of = problem.d;
    const bytes = dtypes[of.dtype].bits / 8;
    const start = { a: (8 * offsets.a) / dtypes[a.dtype].bits, b: (8 * offsets.b) / dtypes[b.dtype].bits };
    const count = values.length;
    const integer = of.dtype === "s32";
    // A part of a rounding of D, and of each sum's f32 roundings (tf32 and 8-bit sums in tensor cores keep fewer bits).
    const own = integer ? 0 : of.dtype === "f32" ? 2 ** -23 : of.dtype === "bf16" ? 2 ** -8 : 2 ** -10;
    const sums = integer ? 0 : a.dtype === "e4m3" ? 2 ** -11 : a.dtype === "tf32" ? 2 ** -12 : 2 ** -19;
    for (let sample = 0; sample < SAMPLES; sample++) {
      const i = sample === 0 ? 0 : sample === 1 ? m - 1 : (sample * 7919 + 13) % m;
      const j = sample === 0 ? 0 : sample === 1 ? n - 1 : sample === 2 ? n - 1 : (sample * 104729 + 7) % n;
      let [sum, size] = [0, 0];
      let ia = (start.a + i * a.ld) % count;
      let ib = (start.b + (b.layout === "row" ? j : j * b.ld)) % count;
      const step = b.layout === "row" ? b.ld % count : 1;
      for (let at = 0; at < k; at++) {
        const product = (values[ia] ?? 0) * (values[ib] ?? 0);
        sum += product;
        size += Math.abs(product);
        ia = ia + 1 === count ? 0 : ia + 1;
        ib = (ib + step) % count;
      }
      const raw = must(d.read((i * of.ld + j) * bytes, bytes));
      const [got = Number.NaN] = decodeArray(of.dtype, storageFromBytes(of.dtype, raw, 1));
      const bound = slack * (own * Math.abs(sum) + sums * size) + 1e-30;
      if (!(Math.abs(got - sum) <= bound))
        return `element ${i}, ${j} is ${got} instead of ${sum} (bound ${bound})`;
    }
    return null;
  }
}
