/** Descriptors and layouts that tensor instructions take as numbers in registers: one table for who writes and who reads them. */
export { type ColumnMask, decodeColumnMask } from "./tcgen05-columns.ts";
export {
  type DecodedInstruction,
  decodeInstructionDescriptor,
  encodeInstructionDescriptor,
  type InstructionDescriptor,
  instructionDescriptorFaults,
  type Major,
} from "./tcgen05-instruction.ts";
export {
  mayTranspose,
  type Tcgen05Accumulator,
  type Tcgen05Element,
  type Tcgen05Form,
  type Tcgen05Kind,
  type Tcgen05ScaleFormat,
  type Tcgen05ScaleVector,
  tcgen05KindRow,
  tcgen05Kinds,
  tcgen05ShapeFaults,
} from "./tcgen05-kinds.ts";
export {
  decodeSharedDescriptor,
  encodeSharedDescriptor,
  pieceOffsets,
  type SharedDescriptor,
  type SharedSwizzle,
  sharedSwizzleCodes,
  swizzledAddress,
  swizzleFault,
} from "./tcgen05-shared.ts";
export {
  type AccumulatorLayout,
  accumulatorColumns,
  accumulatorLayout,
  accumulatorPlace,
  metadataColumns,
  metadataPlace,
  scaleBlock,
  scalePlace,
  tensorOperandColumns,
} from "./tcgen05-tensor.ts";
export {
  decodeWgmmaDescriptor,
  encodeWgmmaDescriptor,
  type WgmmaDescriptor,
  type WgmmaSwizzle,
  wgmmaAddress,
  wgmmaSwizzles,
} from "./wgmma.ts";
