export type * from "./ast.ts";
export * from "./builder.ts";
export { bindInstruction, checkModule } from "./check.ts";
export * from "./descriptors/index.ts";
export { type DirectiveRow, functionDirectives } from "./directives.ts";
export type { Access, Argument, Form, ImmediateRange, OperandSpec, ScalarSpec } from "./form.ts";
export * from "./match.ts";
export * from "./operands.ts";
export { type ParseOptions, parseModule } from "./parse.ts";
export { printInstruction, printModule } from "./print.ts";
export { floatValue, printOperand } from "./print-operand.ts";
export { type Resolution, resolveMnemonic } from "./resolve.ts";
export { versionNeeded } from "./since.ts";
export { type SpecialRegister, specialRegisters } from "./special.ts";
export { type Opcode, rows, rowsByOpcode } from "./table/index.ts";
export {
  type Effect,
  type InstructionRow,
  isOperandType,
  type OperandType,
  type Requirement,
} from "./table/row.ts";
export type { OperandsOf, Reg, UnknownInstruction } from "./typing.ts";
