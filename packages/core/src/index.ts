/** Public surface of `@tilewright/core`: explicit re-exports, in the order of the files (README.md says what each folder owns). */

export * from "./diagnostics.ts";
export { commonDivisor, isPowerOfTwo, largestDivisor, roundUp } from "./divisors.ts";
export {
  type DType,
  dtypeNames,
  dtypes,
  isDType,
  memoryType,
  mixable,
  mixes,
  packedSize,
  productDType,
  sizeOf,
  type WeightType,
  weightTypes,
  widensTo,
} from "./dtype.ts";
export { entryOf } from "./entry.ts";
export { functionNamed, valueOfFunction } from "./expression/evaluate.ts";
export { parseExpression } from "./expression/parse.ts";
export {
  type Expression,
  elementCalls,
  type Fold,
  type FunctionName,
  foldExpression,
  isApproximate,
  isPlain,
  isRounding,
  leavesOf,
  mapLeaves,
  nodesOf,
  type PlainFunction,
  plainValues,
  printExpression,
} from "./expression/tree.ts";
export { sha256 } from "./hash.ts";
export { type Bytes, bytes, type Elements, elements, err, given, ok, type Result } from "./ids.ts";
export { type Lifetime, lifetimesOf, planArena } from "./launch/arena.ts";
export { type CallerTensor, callerTensors, hasSlopes } from "./launch/callerTensors.ts";
export * from "./launch/evaluate.ts";
export * from "./launch/groups.ts";
export { operandNames } from "./launch/operandNames.ts";
export * from "./launch/tensor-map.ts";
export * from "./launch/tensor-map-recipe.ts";
export * from "./launch/views.ts";
export * from "./manifest.ts";
export { didYouMean, editDistance, nearest } from "./nearest.ts";
export { exponentOf, f32Bits, f32FromBits, f64Bits, f64FromBits, signBit } from "./numerics/bits.ts";
export { gemmBound, roundingBound } from "./numerics/bounds.ts";
export { fmaF32 } from "./numerics/fma.ts";
export * from "./numerics/formats.ts";
export * from "./numerics/scaled.ts";
export * from "./numerics/storage.ts";
export {
  type BatchAxis,
  type BatchedOperand,
  batchAxes,
  batchGrain,
  batchOffset,
  batchReach,
  operandElements,
} from "./problem/batch.ts";
export * from "./problem/buffers.ts";
export { checkProblem, maxOperandBytes } from "./problem/check.ts";
export { maxExtent } from "./problem/checkExtent.ts";
export { invalid, problemCodes } from "./problem/codes.ts";
export { type CopiedMatrix, copyBytes, copyPromises } from "./problem/copyBytes.ts";
export { readProblem } from "./problem/define.ts";
export { foldMap, isApproximateEpilogue, type MapLeaf, mapOf } from "./problem/epilogueExpression.ts";
export { type EpilogueKind, epilogueKind } from "./problem/epilogueKind.ts";
export {
  type AddedDType,
  checkExpertRows,
  type ExpertOperandName,
  evenProblem,
  expertAxisOf,
  expertRowsData,
  expertRowsOf,
  type GroupBlocks,
  type GroupStrides,
  groupStart,
  groupStrides,
  isPerExpert,
} from "./problem/expertRows.ts";
export { type QuantizedForm, quantization, quantizedForm, quantizeOf } from "./problem/quantize.ts";
export { defineProblem, operations, readProblemRequest } from "./problem/request.ts";
export { checkRowIndex, isIndex, rowIndexData } from "./problem/rowIndex.ts";
export {
  checkPages,
  checkRunOffsets,
  outerRuns,
  pagesOf,
  rowInPage,
  runAt,
  runData,
  runEnds,
  runOffsets,
  runsOf,
  type ToldRuns,
} from "./problem/runs.ts";
export * from "./problem/scales.ts";
export { operandSpan, packedStride } from "./problem/size.ts";
export * from "./problem/stepInputs.ts";
export {
  extentNames,
  fixedProblem,
  type LaunchSizes,
  type LeadingName,
  leadingNames,
  problemAt,
  problemOfGroup,
  type SizeName,
  type SizeRange,
  type SymbolicSizes,
  sizeExpr,
  sizeMost,
  sizeMultiple,
  sizeNames,
  sizeValue,
  strideNames,
  symbolicSizes,
} from "./problem/symbolic.ts";
export * from "./problem/text.ts";
export { vectorAlign } from "./problem/vectorAlign.ts";
export {
  codeValue,
  isWeightType,
  packWeights,
  type UnpackedWeights,
  WEIGHT_COLUMNS,
  WEIGHT_K,
  WEIGHTS_BELOW,
  type WeightFactors,
  weightFactors,
  weightGroups,
  weightIndex,
  weightMatrix,
  weightOrder,
  weightPlace,
  weightStride,
  weightWordsPerRow,
  weightZero,
} from "./problem/weights.ts";
export {
  type Activation,
  activationNames,
  addsToD,
  type Batch,
  type BlockForm,
  type BlockScales,
  blockForms,
  type EpilogueStep,
  type ExpertAxis,
  type ExpertRows,
  expertAxes,
  expertRows,
  gatedForms,
  LEAST_PAGE,
  type MatrixLayout,
  type Operand,
  operandShape,
  operandStrides,
  type Precision,
  type Problem,
  precisions,
  productColumns,
  rowIndexOf,
  type Scalar,
  upFactor,
} from "./problem.ts";
export { activations, erf } from "./reference/activations.ts";
export { addedRows } from "./reference/added.ts";
export { type Comparison, compareMatrix, compareWithBound, type WorstElement } from "./reference/compare.ts";
export type { Expectation } from "./reference/epilogue.ts";
export { type Approximate, applyApproximately } from "./reference/expression.ts";
export * from "./reference/gemm.ts";
export type { OperandData } from "./reference/multiply.ts";
export { createRandom, type InputDistribution, type Random, randomStorage } from "./reference/random.ts";
export { applyScales, randomFactorCodes, randomScales } from "./reference/scales.ts";
export { storedMatrix } from "./reference/stored.ts";
export * from "./schedule.ts";
export * from "./schema/attention.ts";
export { diagnosticsOfIssues } from "./schema/issues.ts";
export {
  type LibraryDevice,
  type LibraryIndex,
  type LibraryOperationRequest,
  type LibraryRequest,
  libraryIndexSchemaId,
  librarySchema,
  printLibraryIndex,
  readLibraryIndex,
} from "./schema/library.ts";
export { manifestSchema, manifestSchemaId, printManifest, readManifest } from "./schema/manifest.ts";
export {
  type OperandRequest,
  operandRequestSchema,
  operandSchema,
  type ProblemRequest,
  problemRequestSchema,
  problemSchema,
} from "./schema/problem.ts";
export * from "./schema/request.ts";
export { scheduleSchema } from "./schema/schedule.ts";
export { type TunedEntry, tunedSchema } from "./schema/tuned.ts";
export * from "./target.ts";
export { findGpu, findTarget, gpuFor, runsOn } from "./targets/find.ts";
export { type GpuData, gpus, type ModelConstant } from "./targets/gpus.ts";
export * from "./targets/occupancy.ts";
export { firstCudaFor, type PtxVersionRow, ptxVersions } from "./targets/ptxVersions.ts";
export { type Roofline, roofline, rooflineOf } from "./targets/roofline.ts";
export { type ArchName, archsWith, targets, targetsSupporting } from "./targets/table.ts";
export { nearTuned } from "./tuned/near.ts";
export * from "./tuned/store.ts";
