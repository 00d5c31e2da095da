/** Public surface of `@tilewright/core`: explicit re-exports, in the order of the files (README.md says what each folder owns). */

export {
  type Checked,
  type Diagnostic,
  type DiagnosticKind,
  exitCodeOf,
  formatDiagnostic,
  InternalError,
  type SourceLocation,
  unwrap,
  type Verdict,
} from "./diagnostics.ts";
export {
  type DType,
  dtypeNames,
  dtypes,
  isDType,
  mixable,
  mixes,
  productDType,
  sizeOf,
  weightTypes,
  widensTo,
} from "./dtype.ts";
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
export { type Bytes, bytes, type Elements, elements, err, ok, type Result } from "./ids.ts";
export { type Lifetime, lifetimesOf, planArena } from "./launch/arena.ts";
export { type CallerTensor, callerTensors } from "./launch/callerTensors.ts";
export {
  evaluateConstraints,
  evaluateLaunchExpr,
  type LaunchEnvironment,
  launchEnvironment,
  printLaunchExpr,
  type ResolvedLaunch,
  resolveLaunch,
  workspaceBytes,
} from "./launch/evaluate.ts";
export {
  checkGroup,
  type GroupArguments,
  groupConstraints,
  groupTable,
  isEmptyGroup,
  launchOfGroups,
} from "./launch/groups.ts";
export { operandNames } from "./launch/operandNames.ts";
export {
  checkTensorMap,
  type TensorMapRecipe,
  type TensorMapSpec,
  type TensorMapSwizzle,
  type TensorMapType,
  tensorMapBoxBytes,
  tensorMapElementBytes,
  tensorMapExtent,
  tensorMapGlobalBytes,
  tensorMapInterleaves,
  tensorMapL2Promotions,
  tensorMapOf,
  tensorMapSwizzles,
  tensorMapTypeOf,
  tensorMapTypes,
} from "./launch/tensor-map.ts";
export {
  matrixLayout,
  packedView,
  reshapedView,
  type StridedView,
  transposedView,
} from "./launch/views.ts";
export {
  type Certificate,
  type Constraint,
  type GroupField,
  type GroupRow,
  type KernelResources,
  type KernelSpec,
  type LaunchExpr,
  type Manifest,
  type ManifestAttention,
  type ManifestImage,
  type ManifestResources,
  type ManifestTensor,
  type ParamSpec,
  WORKSPACE_ALIGN,
} from "./manifest.ts";
export { didYouMean, editDistance, nearest } from "./nearest.ts";
export { exponentOf, f32Bits, f32FromBits, f64Bits, f64FromBits, signBit } from "./numerics/bits.ts";
export { gemmBound, roundingBound } from "./numerics/bounds.ts";
export { fmaF32 } from "./numerics/fma.ts";
export {
  decode,
  decodeUe8m0,
  encode,
  encodeUe8m0,
  epsilonOf,
  type FloatFormat,
  formats,
  maxFinite,
  type Overflow,
  type Rounding,
  roundToFormat,
} from "./numerics/formats.ts";
export {
  decodeScale,
  decodeScaled,
  encodeScaled,
  isScaled,
  type ScaledArray,
  type ScaledDType,
  type ScaleFormat,
  scaledTypes,
} from "./numerics/scaled.ts";
export {
  bytesOfStorage,
  decodeArray,
  encodeArray,
  makeStorage,
  readElement,
  roundTo,
  type Storage,
  storageBytes,
  storageFromBytes,
  type Values,
  writeElement,
} from "./numerics/storage.ts";
export {
  type BatchAxis,
  type BatchedOperand,
  batchAxes,
  batchGrain,
  batchOffset,
  batchReach,
  operandElements,
} from "./problem/batch.ts";
export { checkProblem, maxOperandBytes } from "./problem/check.ts";
export { maxExtent } from "./problem/checkExtent.ts";
export { invalid, problemCodes } from "./problem/codes.ts";
export { type CopiedMatrix, copyBytes, copyPromises } from "./problem/copyBytes.ts";
export { readProblem } from "./problem/define.ts";
export { foldMap, isApproximateEpilogue, type MapLeaf, mapOf } from "./problem/epilogueExpression.ts";
export { type EpilogueKind, epilogueKind } from "./problem/epilogueKind.ts";
export {
  checkExpertRows,
  expertRowsData,
  expertRowsOf,
  type GroupStrides,
  groupStrides,
} from "./problem/expertRows.ts";
export { defineProblem, operations, readProblemRequest } from "./problem/request.ts";
export {
  BLOCK_SCALE,
  type BlockFactors,
  blockFactors,
  factorsSize,
  packScales,
  SCALE_ALIGN,
  SCALE_FACTORS,
  SCALE_ROWS,
  SCALE_WORDS,
  type ScaleMatrix,
  scaleMatrix,
  scaleOffset,
  scaleWordOf,
} from "./problem/scales.ts";
export { operandSpan, packedStride } from "./problem/size.ts";
export {
  isLaunchScalar,
  type StepMatrix,
  stepBuffer,
  stepExtentNames,
  stepExtents,
  stepMatrix,
  stepOfBuffer,
  upBuffer,
} from "./problem/stepInputs.ts";
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
export {
  parseBlockScales,
  parseEpilogue,
  parseProblem,
  parseSymbolic,
  printEpilogue,
  printOperand,
  printProblem,
  printStep,
  printSymbolic,
} from "./problem/text.ts";
export {
  packWeights,
  type UnpackedWeights,
  WEIGHT_COLUMNS,
  WEIGHT_K,
  WEIGHT_ORDER,
  WEIGHT_WORDS,
  WEIGHT_ZERO,
  type WeightFactors,
  weightFactors,
  weightGroups,
  weightIndex,
  weightMatrix,
  weightPlace,
} from "./problem/weights.ts";
export {
  type Activation,
  activationNames,
  type Batch,
  type BlockForm,
  type BlockScales,
  blockForms,
  type EpilogueStep,
  type ExpertRows,
  expertRows,
  gatedForms,
  type MatrixLayout,
  type Operand,
  operandShape,
  operandStrides,
  type Precision,
  type Problem,
  precisions,
  productColumns,
  type Scalar,
  upFactor,
} from "./problem.ts";
export { activations, erf } from "./reference/activations.ts";
export { type Comparison, compareMatrix, compareWithBound, type WorstElement } from "./reference/compare.ts";
export { type Approximate, applyApproximately } from "./reference/expression.ts";
export {
  accumulatorUnit,
  type Expectation,
  type Reference,
  type ReferenceInputs,
  type ReferenceOptions,
  referenceGemm,
} from "./reference/gemm.ts";
export type { OperandData } from "./reference/multiply.ts";
export { createRandom, type InputDistribution, type Random, randomStorage } from "./reference/random.ts";
export { applyScales, randomFactorCodes, randomScales } from "./reference/scales.ts";
export type {
  FieldValue,
  Schedule,
  ScheduleCodec,
  ScheduleField,
  ScheduleModel,
  ScheduleValues,
} from "./schedule.ts";
export {
  type AttentionRequest,
  attentionDTypes,
  attentionLayouts,
  attentionRequestSchema,
  biasAxes,
  causalForms,
  packings,
} from "./schema/attention.ts";
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
export {
  type CompileRequest,
  jsonSchemaOf,
  requestSchema,
  type SchemaName,
  schemaNames,
} from "./schema/request.ts";
export { scheduleSchema } from "./schema/schedule.ts";
export { type TunedEntry, tunedSchema } from "./schema/tuned.ts";
export {
  type Feature,
  features,
  type Gpu,
  hasFeature,
  type PtxVersion,
  type Target,
  type TargetLimits,
} from "./target.ts";
export { findGpu, findTarget, gpuFor, runsOn } from "./targets/find.ts";
export { type GpuData, gpus, type ModelConstant } from "./targets/gpus.ts";
export {
  type BlockUse,
  launchableRegisters,
  type Occupancy,
  type OccupancyLimiter,
  occupancy,
} from "./targets/occupancy.ts";
export { firstCudaFor, type PtxVersionRow, ptxVersions } from "./targets/ptxVersions.ts";
export { type Roofline, roofline } from "./targets/roofline.ts";
export { type ArchName, archsWith, targets, targetsSupporting } from "./targets/table.ts";
export {
  briefRequest,
  findTuned,
  mergeTuned,
  printTuned,
  readTuned,
  shippedTuned,
  type Tuned,
  type TunedOrigin,
  tunedKey,
} from "./tuned/store.ts";
