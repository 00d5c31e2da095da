/** Descriptors and layouts that tensor instructions take as numbers in registers: one table for who writes and who reads them. */
export { type ColumnMask, decodeColumnMask } from "./tcgen05-columns.ts";
export * from "./tcgen05-instruction.ts";
export * from "./tcgen05-kinds.ts";
export * from "./tcgen05-shared.ts";
export * from "./tcgen05-tensor.ts";
export * from "./wgmma.ts";
