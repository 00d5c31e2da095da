/** cuBLASLt through koffi. */
import { type Checked, err, ok } from "@tilewright/core";
import { bindFunctions, type ForeignFunctions } from "../cuda/foreign.ts";
import { loadKoffi } from "../cuda/koffi.ts";
import { type CublasFunction, cublasPrototypes } from "../cuda/prototypes.ts";
import { measuringFailure } from "../timing/diagnostics.ts";
import { algoBytes, heuristicBytes, heuristicOffset, knownMajors } from "./enums.ts";
import { cublasCandidates, cublasVariable, type FindOptions } from "./find.ts";
import type { CublasAlgorithm, CublasLt, CublasResult, MatmulCall } from "./library.ts";

const howToName = `name it with --cublaslt PATH or ${cublasVariable}; pip install nvidia-cublas has it`;

/**
 * Find and load libcublasLt. Errors: TW6001 without koffi, TW6040 when none loads, TW6041 when what loads is of a major version whose
 * structures are not known here.
 */
export async function openKoffiCublasLt(options: FindOptions): Promise<Checked<CublasLt>> {
  const koffi = await loadKoffi();
  if (!koffi.ok) return koffi;
  const candidates = cublasCandidates(options);
  const reasons: string[] = [];
  for (const path of candidates) {
    try {
      const bound = bindFunctions<CublasFunction>(koffi.value.load(path), cublasPrototypes);
      if (bound.missing.length > 0) {
        reasons.push(`${path} has no ${bound.missing.join(", ")}`);
        continue;
      }
      const library = new KoffiCublasLt(bound.functions, path);
      const wrong = versionProblem(library);
      return wrong ?? ok(library);
    } catch (error) {
      reasons.push((error instanceof Error ? error.message : String(error)).split("\n")[0] ?? path);
    }
  }
  const named = options.library ?? options.env[cublasVariable] ?? "";
  const message =
    named === ""
      ? `no libcublasLt was found (${candidates.length} places tried)`
      : `${named} does not load: ${reasons[0] ?? "the loader does not say why"}`;
  return measuringFailure("cublasMissing", "cublaslt", message, howToName);
}

/** Why a library of this version cannot be called; null when it can. */
export function versionProblem(library: Pick<CublasLt, "library" | "version">): Checked<never> | null {
  const version = library.version();
  const major = Math.floor(version / 10_000);
  if (knownMajors.some((known) => known === major)) return null;
  return measuringFailure(
    "cublasVersion",
    "cublaslt",
    `${library.library} is version ${major} (${version}); ${knownMajors.join(", ")} are supported`,
    howToName,
  );
}

class KoffiCublasLt implements CublasLt {
  readonly library: string;
  readonly #fn: ForeignFunctions<CublasFunction>;

  constructor(functions: ForeignFunctions<CublasFunction>, library: string) {
    this.#fn = functions;
    this.library = library;
  }

  version = () => Number(this.#fn.version());
  create = () => handle((out) => this.#fn.create(out));
  destroy = (of: bigint) => done(this.#fn.destroy(of));
  descCreate = (compute: number, scale: number) => handle((out) => this.#fn.descCreate(out, compute, scale));
  descSet = (desc: bigint, attribute: number, value: Uint8Array) =>
    done(this.#fn.descSet(desc, attribute, value, value.byteLength));
  descDestroy = (desc: bigint) => done(this.#fn.descDestroy(desc));
  layoutCreate = (type: number, rows: number, columns: number, ld: number) =>
    handle((out) => this.#fn.layoutCreate(out, type, rows, columns, ld));
  layoutSet = (layout: bigint, attribute: number, value: Uint8Array) =>
    done(this.#fn.layoutSet(layout, attribute, value, value.byteLength));
  layoutDestroy = (layout: bigint) => done(this.#fn.layoutDestroy(layout));
  preferenceCreate = () => handle((out) => this.#fn.preferenceCreate(out));
  preferenceSet = (preference: bigint, attribute: number, value: Uint8Array) =>
    done(this.#fn.preferenceSet(preference, attribute, value, value.byteLength));
  preferenceDestroy = (preference: bigint) => done(this.#fn.preferenceDestroy(preference));

  heuristic: CublasLt["heuristic"] = (of, desc, { a, b, c, d }, preference, count) => {
    const results = new Uint8Array(new ArrayBuffer(heuristicBytes * count));
    const found: unknown[] = [0];
    const status = Number(this.#fn.heuristic(of, desc, a, b, c, d, preference, count, results, found));
    if (status !== 0) return err(status);
    return ok(readHeuristics(results, Number(found[0])));
  };

  algorithmConfig(algorithm: Uint8Array, attribute: number): number | null {
    const value = new Uint8Array(new ArrayBuffer(4));
    const written: unknown[] = [0];
    // The cluster shape takes two bytes, everything else four: the library checks the size.
    for (const size of [4, 2]) {
      if (Number(this.#fn.algorithmConfig(algorithm, attribute, value, size, written)) === 0)
        return new DataView(value.buffer).getUint32(0, true);
    }
    return null;
  }

  matmul(call: MatmulCall): CublasResult<true> {
    const { desc, alpha, beta, a, b, c, d, aLayout, bLayout, cLayout, dLayout } = call;
    const { algorithm, workspace, workspaceBytes, stream } = call;
    const status = this.#fn.matmul(
      call.handle,
      desc,
      alpha,
      a,
      aLayout,
      b,
      bLayout,
      beta,
      c,
      cLayout,
      d,
      dLayout,
      algorithm,
      workspace,
      workspaceBytes,
      stream,
    );
    return done(status);
  }
}

/** `cublasLtMatmulHeuristicResult_t[]`: those whose state is success. */
export function readHeuristics(results: Uint8Array, found: number): readonly CublasAlgorithm[] {
  const view = new DataView(results.buffer, results.byteOffset, results.byteLength);
  return Array.from({ length: found }, (_, index) => index * heuristicBytes)
    .filter((at) => view.getInt32(at + heuristicOffset.state, true) === 0)
    .map((at) => ({
      bytes: results.slice(at, at + algoBytes),
      workspaceBytes: Number(view.getBigUint64(at + heuristicOffset.workspace, true)),
      waves: view.getFloat32(at + heuristicOffset.waves, true),
    }));
}

const done = (status: unknown): CublasResult<true> => (status === 0 ? ok(true) : err(Number(status)));

function handle(call: (out: unknown[]) => unknown): CublasResult<bigint> {
  const out: unknown[] = [0];
  const status = Number(call(out));
  return status === 0 ? ok(BigInt(out[0] as number | bigint)) : err(status);
}
