/**
 * Diagnostic codes of the command line and its files (7xxx), one meaning each, never reused.
 * The other ranges belong to the packages that raise them.
 */
import type { Diagnostic, DiagnosticKind, SourceLocation } from "@tilewright/core";

interface CodeRow {
  readonly code: `TW7${string}`;
  readonly kind: DiagnosticKind;
  /** What the code means, for the reference of error codes. */
  readonly meaning: string;
}

export const codes = {
  unknownCommand: { code: "TW7001", kind: "invalid", meaning: "no command of this name" },
  unknownFlag: { code: "TW7002", kind: "invalid", meaning: "the command has no such flag" },
  badValue: { code: "TW7003", kind: "invalid", meaning: "the value of a flag is not of the form it takes" },
  missing: { code: "TW7004", kind: "invalid", meaning: "a required flag or argument is not given" },
  conflict: { code: "TW7005", kind: "invalid", meaning: "flags contradict each other" },
  unexpectedArgument: {
    code: "TW7006",
    kind: "invalid",
    meaning: "an argument that the command does not take",
  },
  unreadable: { code: "TW7010", kind: "invalid", meaning: "an input file cannot be read" },
  unwritable: { code: "TW7011", kind: "invalid", meaning: "an output cannot be written" },
  badJson: {
    code: "TW7012",
    kind: "invalid",
    meaning: "a JSON file does not parse or does not fit its schema",
  },
  unknownFormat: {
    code: "TW7013",
    kind: "invalid",
    meaning: "a matrix file of a format that is not read or written",
  },
  npyMalformed: { code: "TW7020", kind: "invalid", meaning: "not a .npy file, or its header is damaged" },
  npyTruncated: {
    code: "TW7021",
    kind: "invalid",
    meaning: "a .npy file holds fewer or more bytes than its header says",
  },
  npyDtype: { code: "TW7022", kind: "invalid", meaning: "a .npy file of a dtype that is not read" },
  npyBigEndian: { code: "TW7023", kind: "invalid", meaning: "a .npy file of big-endian numbers" },
  notAMatrix: {
    code: "TW7024",
    kind: "invalid",
    meaning: "an array that is not of rank 2, or has an empty axis",
  },
  safetensorsMalformed: { code: "TW7030", kind: "invalid", meaning: "a safetensors file is damaged" },
  safetensorsName: {
    code: "TW7031",
    kind: "invalid",
    meaning: "a safetensors file has no tensor of this name, or no name is given",
  },
  safetensorsDtype: {
    code: "TW7032",
    kind: "invalid",
    meaning: "a safetensors tensor of a dtype that is not read",
  },
  lossyInput: {
    code: "TW7033",
    kind: "invalid",
    meaning: "the values of an input file would have to be rounded",
  },
  shapeMismatch: {
    code: "TW7034",
    kind: "invalid",
    meaning: "shapes of input files do not fit each other or the flags",
  },
  notRunnable: {
    code: "TW7040",
    kind: "unsupported",
    meaning: "a problem that `run` has no way to feed or to check",
  },
  tooLarge: {
    code: "TW7042",
    kind: "unsupported",
    meaning: "a problem that does not fit this machine's memory",
  },
  ptxasMissing: { code: "TW7050", kind: "toolchain", meaning: "ptxas is not on PATH" },
  ptxasFailed: {
    code: "TW7051",
    kind: "toolchain",
    meaning: "ptxas rejected the PTX, or cannot assemble for the target",
  },
  nvdisasmFailed: { code: "TW7052", kind: "toolchain", meaning: "nvdisasm makes no code of a cubin" },
  queueFailed: {
    code: "TW7054",
    kind: "toolchain",
    meaning: "the queue of a fleet cannot be used: no BullMQ, or no server that answers",
  },
  queueAlone: {
    code: "TW7055",
    kind: "toolchain",
    meaning: "no worker of the GPU's model is at the queue",
  },
  queueBatch: {
    code: "TW7056",
    kind: "toolchain",
    meaning: "no worker came to the end of a batch, or one of another model did",
  },
  wrongNumbers: {
    code: "TW7060",
    kind: "check",
    meaning: "results differ from the reference by more than the bound",
  },
  hazard: { code: "TW7061", kind: "check", meaning: "a run showed a hazard" },
  incomplete: { code: "TW7062", kind: "check", meaning: "a launch was given up before its end" },
  orderDependent: {
    code: "TW7063",
    kind: "check",
    meaning: "completion orders that the memory model allows give different results",
  },
  notMeasurable: {
    code: "TW7070",
    kind: "unsupported",
    meaning: "speed is asked of something that has none, such as the emulator",
  },
  peerFailed: {
    code: "TW7071",
    kind: "toolchain",
    meaning: "the program of a peer does not start, fails, or prints something else than its times",
  },
  noLadder: {
    code: "TW7073",
    kind: "unsupported",
    meaning: "no backend offers a ladder of that name, or any, on the architecture",
  },
  libraryTwice: {
    code: "TW7080",
    kind: "invalid",
    meaning: "two operations or kernels of a library that nothing tells apart",
  },
  badBackend: {
    code: "TW7081",
    kind: "invalid",
    meaning: "a module that is named as a backend and is none",
  },
  libraryFactors: {
    code: "TW7082",
    kind: "unsupported",
    meaning: "launchers of a library have no place for scale factors",
  },
  libraryTooLarge: {
    code: "TW7084",
    kind: "unsupported",
    meaning: "a library of more kernels than one command makes unless told to",
  },
  badArgument: {
    code: "TW7085",
    kind: "invalid",
    meaning: "an argument of gemm() that is missing, of another type or of another length",
  },
  libraryOrder: {
    code: "TW7086",
    kind: "unsupported",
    meaning: "sizes of a batch-invariant operation that share no order of additions",
  },
  libraryGroups: {
    code: "TW7083",
    kind: "unsupported",
    meaning: "launchers of a library have no place for a table of groups",
  },
} as const satisfies Record<string, CodeRow>;

/** A diagnostic of this package; its kind follows from its code. */
export function problemWith(
  row: (typeof codes)[keyof typeof codes],
  at: string,
  message: string,
  more: { readonly hint?: string; readonly location?: SourceLocation } = {},
): Diagnostic {
  return { code: row.code, kind: row.kind, at, message, ...more };
}
