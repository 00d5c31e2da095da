/** Public surface of `@tilewright/ir`: explicit re-exports, in the order of the files (README.md says what each folder owns). */

export { additionsOf } from "./additions.ts";
export { type AnnotatedPtx, annotatePtx, barePtx } from "./annotate.ts";
export type { Artifact, TraceStep } from "./artifact.ts";
export {
  type Atom,
  atomFor,
  atoms,
  elementsPerRegister,
  findAtom,
  hasAtom,
  widensIntoFragments,
} from "./atoms/atoms.ts";
export { MATRIX_ROW_BYTES, type MatrixLoad, matrixLoad } from "./atoms/matrixLoad.ts";
export { findTensorKind, type TensorKind, tensorKindFor, tensorKinds } from "./atoms/tensorKinds.ts";
export * from "./atoms/warpgroup.ts";
export type { AttentionView, AttentionViews } from "./attention/program.ts";
export {
  type Attention,
  attentionFlops,
  printAttention,
  readAttention,
  requestOfAttention,
} from "./attention/request.ts";
export { attentionText } from "./attention/text.ts";
export type { Backend, LoweredKernel, Remark } from "./backend.ts";
export type { Choice, RefusedEntry } from "./choice.ts";
export { type CompileInput, type Compiler, type CompilerOptions, createCompiler } from "./compiler.ts";
export { addsAsTheyCome } from "./determinism.ts";
export { servingGated } from "./gatedBackend.ts";
export { type Ladder, type LadderStep, ladderSchedules, ladderSteps, ladderTo } from "./ladder.ts";
export { launchExprOf } from "./launch/ofExpr.ts";
export { stepAccessFault, tensorAccessFault } from "./launch/tensor-access.ts";
export {
  boxedRun,
  boxesOf,
  GATHERED_ROWS,
  hasOneMap,
  PATTERN_ROWS,
  TENSOR_ALIGN,
  type TensorCut,
  type TensorRange,
  tensorCut,
  tensorMapFor,
  transactionBytes,
} from "./launch/tensor-copies.ts";
export * from "./layout/banks.ts";
export * from "./layout/choose.ts";
export {
  byteOffset,
  colMajor,
  contiguousIn,
  coordinateOf,
  cosize,
  elementOffset,
  footprint,
  interleavedOver,
  isInjective,
  linearOffset,
  makeLayout,
  panelled,
  panelsFault,
  rowMajor,
  sizeOfLayout,
  type VectorOptions,
  vectorLength,
  withPadding,
  withSwizzle,
} from "./layout/layout.ts";
export * from "./layout/swizzle.ts";
export { parseLayout, printLayout, printSwizzle } from "./layout/text.ts";
export type { Layout, Panels, Swizzle } from "./layout/types.ts";
export * from "./model/index.ts";
export { must } from "./must.ts";
export { nearMachine } from "./near.ts";
export * from "./passes/index.ts";
export * as passes from "./passes/index.ts";
export { type BackendVerdict, compilerCodes, type Plan, predictionOf } from "./plans.ts";
export { anchorOf } from "./program/anchor.ts";
export { programCandidates, programPlans } from "./program/candidates.ts";
export { type MeasuredMatrix, measureProgram, type ParameterValues } from "./program/measure.ts";
export { isAxisProgram, parseAxisProgram } from "./program/parse.ts";
export { printAxisProgram } from "./program/print.ts";
export { checkedRows, programWork, referenceProgram, referenceRows } from "./program/reference.ts";
export { scheduleProgram } from "./program/schedule.ts";
export type { AxisProgram, Parameter } from "./program/types.ts";
export { type Candidate, type RankOptions, rankCandidates } from "./rank.ts";
export { asyncTargetFault, asyncWidthFault, LEAST_ASYNC_BYTES } from "./schedule/asyncCopies.ts";
export { asyncPolicyFault, cacheDirective, streamPolicies } from "./schedule/cache.ts";
export * from "./schedule/codec.ts";
export { coreFields, reductionOrDsmem } from "./schedule/core.ts";
export * from "./schedule/fields.ts";
export { scheduleValues } from "./schedule/reader.ts";
export { convertSchedule } from "./schedule/renamed.ts";
export * from "./schedule/rules.ts";
export {
  type Completed,
  completedBy,
  INFORMED,
  NEAR,
  type SearchSpace,
  searching,
} from "./schedule/search.ts";
export * from "./schedule/splitK.ts";
export { productOf } from "./tile/gated.ts";
export * from "./tile/index.ts";
export { upOrigin } from "./tile/stepViews.ts";
export {
  type ArrayDeclaration,
  type Arriver,
  type Axis,
  type Barrier,
  type BarrierRef,
  type Buffer,
  type CachePolicy,
  type Columns,
  type Cond,
  type CopyKind,
  type CountedStreamK,
  cachePolicies,
  type Distance,
  type Distribution,
  type Edge,
  type ElementExpr,
  type ElementLeaf,
  type Expr,
  type FrameKind,
  type KeptValues,
  type KernelDeclaration,
  type L2Promotion,
  type Launch,
  l2PrefetchSizes,
  l2Promotions,
  type MachineDeclarations,
  type MachineStmt,
  MOST_SLICES,
  type Nest,
  type Ownership,
  type OwnershipMode,
  type Place,
  type Raster,
  type Reach,
  type ReductionKind,
  type ReductionStmt,
  type RegionDeclaration,
  type RegionName,
  type Ring,
  type RunsDeclaration,
  reached,
  reductionKinds,
  type Scratch,
  type Space,
  type Stage,
  type Stmt,
  type StmtKind,
  type StreamK,
  stages,
  type Tier,
  type TileLoop,
  type TileProgram,
  type Transport,
  tiers,
  type View,
  type Walk,
  type Within,
} from "./tile/types.ts";
