/** What a kernel of stage `machine` has of the machine: places, barriers, scratch, kernels in launch order. */
import type {
  BatchAxis,
  DType,
  ExpertRows,
  GroupBlocks,
  GroupRow,
  KernelSpec,
  LaunchExpr,
  Manifest,
  ParamSpec,
  SizeName,
} from "@tilewright/core";

/** Where slot 0 of a tile begins, in bytes of the block's shared memory or columns of its tensor memory, and from there each next slot; 0 of a tile with one outside rings. */
export interface Place {
  readonly offset: number;
  readonly every: number;
}

/** So many mbarriers one after the other, each of which counts so many arrivals a phase. */
export interface Barrier {
  readonly name: string;
  readonly offset: number;
  readonly slots: number;
  readonly count: number;
}

/** Slots `from` to `to` - 1. */
export interface SlotRange {
  readonly from: number;
  readonly to: number;
}

/** Shared memory that is no tile: slices and parts of accumulators on their way, the address of tensor memory. */
export interface Scratch {
  readonly name: string;
  readonly offset: number;
  readonly bytes: number;
}

/**
 * Values that the emission keeps in registers through the main loop rather than compute them where they are used. `addresses`: of shared memory, one for each pattern of bits
 * that a swizzle flips. `epilogue`: places and bounds of D, which then stand where the role begins and waits for its first chunk.
 */
export const keptValues = ["addresses", "epilogue"] as const;

export type KeptValues = (typeof keptValues)[number];

/** Elements from one place to the next: a number, or a product of it and sizes that the launch supplies. */
export interface Distance {
  readonly times: number;
  readonly sizes: readonly SizeName[];
}

/**
 * An array as a kernel addresses it: where its elements lie, from the pointer of its name on, or in the workspace's `region` of that name (a transposed copy; results of a step).
 */
export interface ArrayDeclaration {
  readonly name: OperandName;
  readonly dtype: DType;
  /** From row to row, and from column to column; 0 along an axis that it does not have. */
  readonly strides: readonly [Distance, Distance];
  readonly region?: true;
  /** From one problem of a strided batch to the next; 0 unless given. */
  readonly batch?: Distance;
  /** In place of that: along several axes, the innermost last. */
  readonly axes?: readonly BatchAxis[];
  /** Of experts: from one row of all groups to the next, times the group's first row; and from group to group. 0 unless given. */
  readonly rows?: number;
  readonly groups?: number;
  /** Of rows in blocks: `rows` is from block to block, and a group begins at a block of its own. */
  readonly blocks?: GroupBlocks;
}

/** What a pointer or array of a kernel is called. */
type OperandName = "a" | "b" | "c" | "d" | "sfa" | "sfb" | `epilogue${number}`;

/**
 * A part of the workspace that the kernels of a launch share, in bytes: `counters` of work tiles, `partials` (partial tiles), `maps` (tensor maps that CTAs make), a transposed copy of
 * a matrix, or results of a step in f32. `stride`: from one counter, partial tile, CTA's maps or problem's copy to the next, or from the results of one group; absent where the launch says.
 */
export interface RegionDeclaration {
  readonly name: RegionName;
  readonly at: LaunchExpr;
  readonly stride?: number;
  /** Partial tiles of one work tile, which lie one behind the other; 1 unless given. Of each so many threads have every register side by side. */
  readonly each?: number;
  readonly threads?: number;
  /** Of one problem: counters; partial tiles, or work tiles that have `each`. */
  readonly count?: LaunchExpr;
  readonly bytes: LaunchExpr;
}

/** What a workspace must be before a launch. */
export type WorkspaceInit = Manifest["workspace"]["init"];

export type RegionName = "counters" | "partials" | "maps" | OperandName;

/** A size that launches or groups supply, and what it may be. */
export interface SizeDeclaration {
  readonly name: "m" | "n" | "k";
  readonly least: number;
  readonly most: number;
  /** Of the rows of experts: what divides them all, where that is not 1. */
  readonly multiple?: number;
}

/** Runs of rows whose numbers a step's operand has in device memory: where that of the problem at hand begins and how many rows it has, as variables. */
export interface RunsDeclaration {
  readonly first: string;
  readonly count: string;
  readonly step: number;
  /** Rows of the longest, and of all. */
  readonly most: number;
  readonly total: number;
  /** Rows of a page, a power of two, and the step whose operand has the numbers of the pages; absent where rows lie one behind the other. */
  readonly pages?: number;
  readonly table?: number;
  /** Buffers that are stored, and have rows of the run at hand only. */
  readonly stored?: readonly string[];
}

/** A kernel of the artefact: the program's own, or one that is launched before or behind it. */
export interface KernelDeclaration {
  readonly role: KernelSpec["role"];
  /** Entry symbol. */
  readonly name: string;
  readonly grid: KernelSpec["launch"]["grid"];
  /** Threads of a block; `exact`: ptxas is told that it has no fewer. */
  readonly threads: number;
  readonly exact: boolean;
  /** Blocks that shall fit an SM, and registers of a thread; null leaves them to ptxas. */
  readonly ctas: number | null;
  readonly maxnreg: number | null;
  /** What holds registers through the main loop. */
  readonly keeps: readonly KeptValues[];
  /** Bytes of workspace that it needs; the kernels of one launch share it. */
  readonly workspace: LaunchExpr;
  /** In the order of the entry's parameters. */
  readonly params: readonly ParamSpec[];
  /** Rows of the table of a grouped problem. */
  readonly row?: GroupRow;
  readonly arrays: readonly ArrayDeclaration[];
  /** The kernel behind it in the stream may begin before it ends (PTX ISA, griddepcontrol). */
  readonly pdl?: true;
}

/** What a kernel has of the machine, beside the places of its tiles. */
export interface MachineDeclarations {
  readonly barriers: readonly Barrier[];
  readonly scratch: readonly Scratch[];
  /** Bytes of shared memory, and columns of tensor memory, of a block. */
  readonly memory: { readonly shared: number; readonly tensor: number };
  /** Kernels in launch order, and what they want of their workspace before a launch. */
  readonly launches?: {
    readonly kernels: readonly KernelDeclaration[];
    readonly init: WorkspaceInit;
    /** What lies in it. */
    readonly regions: readonly RegionDeclaration[];
    /** Extents that the launch supplies. */
    readonly sizes: readonly SizeDeclaration[];
    /** Problems of a strided batch; absent of others. */
    readonly batch?: LaunchExpr;
    /** What tells rows of experts apart; absent of others. */
    readonly experts?: ExpertRows;
    /** Runs of rows; absent where problems have matrices of their own. */
    readonly runs?: readonly RunsDeclaration[];
  };
}
