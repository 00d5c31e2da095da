/** Public surface of `@tilewright/ir`: explicit re-exports, in the order of the files (README.md says what each folder owns). */

export { type AnnotatedPtx, annotatePtx, barePtx } from "./annotate.ts";
export { type Atom, atomFor, atoms, elementsPerRegister, findAtom, hasAtom } from "./atoms/atoms.ts";
export { MATRIX_ROW_BYTES, type MatrixLoad, matrixLoad } from "./atoms/matrixLoad.ts";
export { findTensorKind, type TensorKind, tensorKindFor, tensorKinds } from "./atoms/tensorKinds.ts";
export {
  findWarpgroupAtom,
  hasWarpgroupAtom,
  type WarpgroupAtom,
  warpgroupAtom,
  warpgroupWidths,
} from "./atoms/warpgroup.ts";
export type { Backend, LoweredKernel, Remark } from "./backend.ts";
export {
  type Artifact,
  type CompileInput,
  type Compiler,
  type CompilerOptions,
  createCompiler,
  type TraceStep,
} from "./compiler.ts";
export { addsAsTheyCome } from "./determinism.ts";
export {
  type Checked,
  type Diagnostic,
  type DiagnosticKind,
  exitCodeOf,
  formatDiagnostic,
  InternalError,
  type SourceLocation,
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
  widensTo,
} from "./dtype.ts";
export { sha256 } from "./hash.ts";
export { type Bytes, bytes, type Elements, elements, err, ok, type Result } from "./ids.ts";
export { type Ladder, type LadderStep, ladderSchedules } from "./ladder.ts";
export {
  evaluateConstraints,
  evaluateLaunchExpr,
  type LaunchEnvironment,
  launchEnvironment,
  printLaunchExpr,
  type ResolvedLaunch,
  resolveLaunch,
} from "./launch/evaluate.ts";
export {
  checkGroup,
  type GroupArguments,
  groupConstraints,
  groupTable,
  isEmptyGroup,
  launchOfGroups,
} from "./launch/groups.ts";
export { launchExprOf } from "./launch/ofExpr.ts";
export {
  boxedRun,
  stepAccessFault,
  TENSOR_ALIGN,
  type TensorCut,
  type TensorRange,
  tensorAccessFault,
  tensorCut,
  tensorMapFor,
  transactionBytes,
} from "./launch/tensor-copies.ts";
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
export { coalesce, compose, coordinateAtByte, divide, invert, select } from "./layout/algebra.ts";
export {
  type AccessWidth,
  type BankCell,
  type BankReport,
  bankCells,
  bankConflicts,
  type WarpAccess,
} from "./layout/banks.ts";
export {
  chooseLayout,
  type LayoutChoice,
  type LayoutQuery,
  rankLayouts,
  swizzleCandidates,
  type TileAccess,
} from "./layout/choose.ts";
export {
  byteOffset,
  colMajor,
  coordinateOf,
  cosize,
  dealtOver,
  elementOffset,
  footprint,
  isBijective,
  isInjective,
  linearOffset,
  makeLayout,
  offsetAt,
  panelled,
  panelsFault,
  rowMajor,
  sizeOfLayout,
  type VectorOptions,
  vectorLength,
  withPadding,
  withSwizzle,
} from "./layout/layout.ts";
export {
  applySwizzle,
  swizzleFault,
  swizzlePeriod,
  swizzleSpan,
  type TensorSwizzle,
  tensorSwizzleName,
  tensorSwizzles,
} from "./layout/swizzle.ts";
export { parseLayout, printLayout, printSwizzle } from "./layout/text.ts";
export type { Layout, Panels, Swizzle } from "./layout/types.ts";
export type {
  Certificate,
  Constraint,
  GroupField,
  GroupRow,
  KernelResources,
  KernelSpec,
  LaunchExpr,
  Manifest,
  ManifestImage,
  ManifestResources,
  ParamSpec,
} from "./manifest.ts";
export { WORKSPACE_ALIGN } from "./manifest.ts";
export {
  constantsOf,
  type Engine,
  engines,
  kernelOf,
  type Machine,
  type ModelKernel,
  machineOf,
  machines,
  type Prediction,
  plainKernel,
  predict,
  type UsedConstant,
  usualMachine,
} from "./model/index.ts";
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
export * from "./passes/index.ts";
export { type BackendVerdict, compilerCodes, type Plan } from "./plans.ts";
export { checkProblem, maxExtent, maxOperandBytes } from "./problem/check.ts";
export { problemCodes } from "./problem/codes.ts";
export { type CopiedMatrix, copyBytes, copyPromises } from "./problem/copyBytes.ts";
export { readProblem } from "./problem/define.ts";
export { type EpilogueKind, epilogueKind } from "./problem/epilogueKind.ts";
export { defineProblem, readProblemRequest } from "./problem/request.ts";
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
} from "./problem/scales.ts";
export { operandElements, operandSpan, packedStride } from "./problem/size.ts";
export { type StepMatrix, stepBuffer, stepMatrix } from "./problem/stepInputs.ts";
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
  type Activation,
  type Batch,
  type BlockForm,
  type BlockScales,
  blockForms,
  type EpilogueStep,
  type MatrixLayout,
  type Operand,
  operandShape,
  operandStrides,
  type Precision,
  type Problem,
  precisions,
  type Scalar,
} from "./problem.ts";
export { activations, erf } from "./reference/activations.ts";
export { type Comparison, compareMatrix, compareWithBound, type WorstElement } from "./reference/compare.ts";
export {
  type Expectation,
  type Reference,
  type ReferenceInputs,
  type ReferenceOptions,
  referenceGemm,
} from "./reference/gemm.ts";
export type { OperandData } from "./reference/multiply.ts";
export { createRandom, type InputDistribution, type Random, randomStorage } from "./reference/random.ts";
export { applyScales, randomFactorCodes, randomScales } from "./reference/scales.ts";
export { asyncTargetFault, asyncWidthFault, LEAST_ASYNC_BYTES } from "./schedule/asyncCopies.ts";
export { asyncPolicyFault, cacheDirective, streamPolicies } from "./schedule/cache.ts";
export {
  defaultSchedule,
  parseSchedule,
  printSchedule,
  scheduleCodec,
  scheduleCodes,
  scheduleFromRecord,
  storedSchedule,
} from "./schedule/codec.ts";
export { coreFields, reductionOrDsmem } from "./schedule/core.ts";
export {
  flagField,
  intField,
  lineOrderField,
  rasterField,
  rasterOf,
  sizeField,
  tupleField,
  withDefault,
  wordField,
} from "./schedule/fields.ts";
export { scheduleValues } from "./schedule/reader.ts";
export { convertSchedule } from "./schedule/renamed.ts";
export {
  type Legality,
  legality,
  nearestMultiple,
  ruleFaults,
  type ScheduleFault,
  type ScheduleRule,
} from "./schedule/rules.ts";
export {
  dsmemReductionFault,
  proposedAtLaunch,
  reductionFaults,
  type SplitKFields,
  splitKFaults,
} from "./schedule/splitK.ts";
export type { FieldValue, Schedule, ScheduleCodec, ScheduleField, ScheduleModel } from "./schedule.ts";
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
export {
  type Feature,
  features,
  type Gpu,
  hasFeature,
  type PtxVersion,
  type Target,
  type TargetLimits,
} from "./target.ts";
export { findGpu, findTarget, gpuFor, runsOn, targetsSupporting } from "./targets/find.ts";
export { gpus } from "./targets/gpus.ts";
export {
  type BlockUse,
  launchableRegisters,
  type Occupancy,
  type OccupancyLimiter,
  occupancy,
  residentInClusters,
} from "./targets/occupancy.ts";
export { firstCudaFor, type PtxVersionRow, ptxVersions } from "./targets/ptxVersions.ts";
export { type Roofline, roofline } from "./targets/roofline.ts";
export { type ArchName, targets } from "./targets/table.ts";
export * from "./tile/index.ts";
export {
  type Arriver,
  type Axis,
  type Barrier,
  type BarrierRef,
  type Buffer,
  type CachePolicy,
  type Columns,
  type Cond,
  type CountedStreamK,
  cachePolicies,
  type Distribution,
  type Edge,
  type Expr,
  type FrameKind,
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
  type Ring,
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
} from "./tile/types.ts";
