/** Public surface of the tile IR, beside its types (`types.ts`). */

export { type DiffOptions, unifiedDiff } from "../passes/diff.ts";
export { type RunPassesOptions, runPasses, type Verification } from "../passes/runPasses.ts";
export { contiguousAxis, operandRole, type SharedAccess, sharedAccesses, vectorAxis } from "./accesses.ts";
export { columnRuns, takesColumn } from "./columns.ts";
export {
  type CondOp,
  cond,
  condVars,
  evaluateCond,
  foldCond,
  substituteCond,
} from "./cond.ts";
export type { ArgumentsOf, Directive, DirectiveName } from "./directives.ts";
export * from "./dsmemReduction.ts";
export { codeOrder, holdsResponses, isElected } from "./elected.ts";
export { elementBytes } from "./elementBytes.ts";
export {
  ELEMENT_BARRIER,
  type ElementStmt,
  elementDomain,
  elementSources,
  factorOf,
  isElementStmt,
} from "./elements.ts";
export {
  add,
  asLinear,
  div,
  type Env,
  type ExprLike,
  equalExpr,
  evaluateExpr,
  freeVars,
  type Linear,
  lit,
  mod,
  mul,
  namedRemainders,
  sameValue,
  simplify,
  sub,
  substituteExpr,
  v,
} from "./expr.ts";
export {
  commonRows,
  countedStreamKFor,
  entryName,
  type GemmNestOptions,
  gemmNest,
  registerBuffer,
  tierExtent,
  tileExtent,
} from "./gemm.ts";
export type { StepInput, StepOutputs } from "./interpret/epilogue.ts";
export type { Order } from "./interpret/machine.ts";
export { makeValues, type ValueArray } from "./interpret/memory.ts";
export { type Interpreted, type InterpretInputs, type InterpretOptions, interpret } from "./interpret.ts";
export * from "./launches/index.ts";
export { type LineOrder, linesInOrder } from "./lineOrder.ts";
export { holdsLoops } from "./loops.ts";
export { feedsEpilogue, ownBytes } from "./operandRings.ts";
export {
  type DistributionGrid,
  distribute,
  distributedVector,
  distributionGrid,
  groupedColumns,
  modeCoordinate,
  type OwnedRegister,
  ownedAxis,
  ownedRegisters,
  registerRun,
  registerSteps,
  registersPerThread,
  type TierIndex,
  vectorsOf,
  vectorsPerThread,
  type WeightedMode,
  weighted,
} from "./ownership.ts";
export { type ParsedProgram, parseProgram, parseProgramWithLocations } from "./parse.ts";
export { PING_PONG_BARRIER, type PingPongPoints, pingPongPoints, responses } from "./pingPong.ts";
export { bodyOf, printHead, printProgram } from "./print.ts";
export { printCond, printExpr } from "./printExpr.ts";
export { behindPrologue, earlyProducerRole, type PrologueChunk, prologueOf } from "./prologue.ts";
export { narrow, type Range, type Ranges, rangeOf, rangesInside } from "./ranges.ts";
export * from "./raster.ts";
export * from "./rewrite.ts";
export { namesRows, ownProgram } from "./runs.ts";
export {
  isFactors,
  SCALE_COLUMNS,
  SCALE_LANES,
  scaleWords,
} from "./scaleTiles.ts";
export {
  barrierName,
  MBARRIER_BYTES,
  placeShared,
  type Region,
  regionsOf,
  type SharedNeeds,
  sharedNames,
} from "./sharedMemory.ts";
export {
  countOf,
  extentMultiple,
  launchRanges,
  matrixAlign,
  programAt,
  rowsInBlocks,
  sizeRanges,
  sizeVariables,
  strideMultiple,
  symbolicExtent,
  symbolicLeading,
} from "./sizes.ts";
export {
  stagedOwner,
  storeOwners,
  storesInBulk,
} from "./staged.ts";
export {
  type PartialTile,
  partialTileProgram,
  partialTilesOf,
  splitChunks,
  streamKBlocks,
  streamKFor,
  streamKGrid,
  streamKOf,
  substituteStmt,
} from "./streamK.ts";
export {
  elementsPerColumn,
  LANE_STRIDE,
  MOST_COLUMNS,
  slotColumns,
  TENSOR_LANES,
  type TensorColumns,
  type TensorForm,
  type TensorPlace,
  tensorColumns,
  tensorPlace,
  tensorTileLayout,
} from "./tensor.ts";
export {
  afterTransposing,
  MOST_COPIED,
  TRANSPOSED_ALIGN,
  TRANSPOSING_SIDE,
  transposable,
  transposedBlock,
  transposedBytes,
  transposedOperands,
  transposedStrides,
  transposeFault,
  transposeFaults,
  transposing,
  transposingBytes,
} from "./transposed.ts";
export { featuresOf } from "./verify/features.ts";
export { verifiers, verifyChunkCounts, verifyProgram } from "./verify/index.ts";
export { proveProtocol } from "./verify/proof/index.ts";
export { proofRules, type Rule as ProofRule } from "./verify/proof/rules.ts";
export type { Fault, Site, Subject, Verifier } from "./verify/verifier.ts";
export { labelOf } from "./verify/verifier.ts";
export { readsOf, viewsOf, withExprs, withReads, withViews } from "./views.ts";
export {
  codesOf,
  rowsOfWeights,
  type WeightScaling,
  weightColumns,
  weightScaling,
  weightsBelow,
  weightTiles,
} from "./weights.ts";
export { firstIteration, iterationsWithin, skipsIterations } from "./within.ts";
