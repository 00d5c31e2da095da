/** The contenders of a benchmark: the job's own kernels, and the library that they are compared with. */
import { type Checked, type Diagnostic, ok, sha256 } from "@tilewright/core";
import type { CublasLt } from "../cublaslt/library.ts";
import { CublasPeer, type PeerBuffers, peerWorkspaceBytes } from "../cublaslt/peer.ts";
import { CudaBuffer } from "../cuda/buffer.ts";
import type { CudaContext } from "../cuda/context.ts";
import type { BenchBuffers } from "./buffers.ts";
import { fastest } from "./choose.ts";
import { loadKernel } from "./kernels.ts";
import type { BenchContender, BenchJob, BenchStage } from "./outcome.ts";
import type { Contender, TimingStream } from "./stream.ts";

export interface Entry {
  readonly contender: Contender;
  readonly about: Omit<BenchContender, "check">;
}

/** What contenders are made of. */
export interface Making {
  readonly context: CudaContext;
  readonly job: BenchJob;
  readonly buffers: BenchBuffers;
  readonly stream: TimingStream;
  /** Null: there are no peers. */
  readonly library: CublasLt | null;
  /** What could not be had is added. */
  readonly notes: Diagnostic[];
  /** What gives back what has been made, added as it is made. */
  readonly undo: (() => void)[];
  readonly stage: (doing: BenchStage["doing"], name: string | null) => void;
}

/** The job's own kernels, loaded. */
export function candidatesOf({ context, job, buffers, undo, stage }: Making): Checked<readonly Entry[]> {
  const entries: Entry[] = [];
  for (const { name, artifact } of job.candidates) {
    stage("loading", name);
    const kernel = loadKernel(context, name, artifact, buffers.sets);
    if (!kernel.ok) return kernel;
    undo.push(() => kernel.value.free());
    const { registers, localBytes } = kernel.value.attributes;
    const { ptx } = artifact;
    entries.push({
      contender: kernel.value.contender,
      about: {
        name,
        role: "candidate",
        detail: `${registers ?? "?"} registers${localBytes ? `, ${localBytes} B of local memory` : ""}`,
        ptxSha256: typeof ptx === "string" ? sha256(ptx) : null,
        cubinSha256: cubinHash(context, ptx),
      },
    });
  }
  return ok(entries);
}

/** Hash of the machine code; the driver's linker makes what its loader makes. */
function cubinHash(context: CudaContext, image: string | Uint8Array): string | null {
  if (typeof image !== "string") return sha256(image);
  const linked = context.call("bench.cubin", (driver) =>
    ok(driver.linkPtx(new TextEncoder().encode(`${image}\0`)).result),
  );
  return linked.ok && linked.value.ok ? sha256(linked.value.value) : null;
}

/** cuBLASLt's first choice, and the fastest of the others that it proposes. Not being able to is a note, never an error. */
export function peersOf(making: Making): Checked<readonly Entry[]> {
  const { context, library, job, buffers, stream, notes, undo, stage } = making;
  if (job.cublas === null || library === null || job.problem.batch.kind === "grouped") return ok([]);
  const workspace = CudaBuffer.alloc(context, peerWorkspaceBytes);
  if (!workspace.ok) return workspace;
  undo.push(() => workspace.value.free());
  const sets = buffers.sets.map((set): PeerBuffers => {
    const address = (name: string): bigint => set[name]?.address ?? 0n;
    return {
      a: address("a"),
      b: address("b"),
      c: job.problem.c === null ? null : address("c"),
      d: set.d.address,
      sfa: address("sfa"),
      sfb: address("sfb"),
      steps: new Map(job.problem.epilogue.map((_, index) => [index, address(`epilogue${index}`)])),
    };
  });
  const opened = CublasPeer.open(library, job.problem, sets, {
    stream: context.stream,
    workspace: workspace.value.address,
    workspaceBytes: peerWorkspaceBytes,
    algorithms: job.cublas.algorithms,
  });
  if (!opened.ok) {
    notes.push(...opened.error);
    return ok([]);
  }
  const peer = opened.value;
  undo.push(() => peer.close());
  stage("trying out", "cublas");
  const tried = fastest(stream, peer, buffers.sets.length, job.seed);
  if (!tried.ok) return tried;
  const { best, usable, failed } = tried.value;
  notes.push(...failed);
  const [first] = usable;
  if (first === undefined) return ok([]);
  const entryOf = (index: number, name: string): readonly Entry[] => {
    const algorithm = peer.algorithms[index];
    if (algorithm === undefined) return [];
    return [
      {
        contender: { name, launch: algorithm.contender.launch },
        about: {
          name,
          role: "peer",
          detail: `${algorithm.label}, ${index === best ? "the fastest" : `choice ${index + 1}`} of ${usable.length}`,
          ptxSha256: null,
          cubinSha256: null,
        },
      },
    ];
  };
  return ok([...entryOf(first, "cublas"), ...(best === first ? [] : entryOf(best, "cublas-best"))]);
}
