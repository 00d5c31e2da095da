/**
 * Diagnostic codes of the command line and its files (7xxx), one meaning each, never reused.
 * The other ranges belong to the packages that raise them.
 */
import {
  type Checked,
  type Diagnostic,
  type DiagnosticKind,
  err,
  type SourceLocation,
} from "@tilewright/core";

interface CodeRow {
  readonly code: `TW7${string}`;
  readonly kind: DiagnosticKind;
  /** What the code means, for the reference of error codes. */
  readonly meaning: string;
}

/** Code, kind, and what it means. */
const texts = {
  unknownCommand: "TW7001 | invalid | no command of this name",
  unknownFlag: "TW7002 | invalid | the command has no such flag",
  badValue: "TW7003 | invalid | the value of a flag is not of the form it takes",
  missing: "TW7004 | invalid | a required flag or argument is not given",
  conflict: "TW7005 | invalid | flags contradict each other",
  unexpectedArgument: "TW7006 | invalid | an argument that the command does not take",
  unreadable: "TW7010 | invalid | an input file cannot be read",
  unwritable: "TW7011 | invalid | an output cannot be written",
  badJson: "TW7012 | invalid | a JSON file does not parse or does not fit its schema",
  unknownFormat: "TW7013 | invalid | a matrix file of a format that is not read or written",
  npyMalformed: "TW7020 | invalid | not a .npy file, or its header is damaged",
  npyTruncated: "TW7021 | invalid | a .npy file holds fewer or more bytes than its header says",
  npyDtype: "TW7022 | invalid | a .npy file of a dtype that is not read",
  npyBigEndian: "TW7023 | invalid | a .npy file of big-endian numbers",
  notAMatrix: "TW7024 | invalid | an array that is not of rank 2, or has an empty axis",
  safetensorsMalformed: "TW7030 | invalid | a safetensors file is damaged",
  safetensorsName: "TW7031 | invalid | a safetensors file has no tensor of this name, or no name is given",
  safetensorsDtype: "TW7032 | invalid | a safetensors tensor of a dtype that is not read",
  lossyInput: "TW7033 | invalid | the values of an input file would have to be rounded",
  shapeMismatch: "TW7034 | invalid | shapes of input files do not fit each other or the flags",
  notRunnable: "TW7040 | unsupported | a problem that `run` has no way to feed or to check",
  tooLarge: "TW7042 | unsupported | a problem that does not fit this machine's memory",
  ptxasMissing: "TW7050 | toolchain | ptxas is not on PATH",
  ptxasFailed: "TW7051 | toolchain | ptxas rejected the PTX, or cannot assemble for the target",
  nvdisasmFailed: "TW7052 | toolchain | nvdisasm makes no code of a cubin",
  queueFailed:
    "TW7054 | toolchain | the queue of a fleet cannot be used: no BullMQ, or no server that answers",
  queueAlone: "TW7055 | toolchain | no worker of the GPU's model is at the queue",
  queueBatch: "TW7056 | toolchain | no worker came to the end of a batch, or one of another model did",
  wrongNumbers: "TW7060 | check | results differ from the reference by more than the bound",
  hazard: "TW7061 | check | a run showed a hazard",
  incomplete: "TW7062 | check | a launch was given up before its end",
  orderDependent: "TW7063 | check | completion orders that the memory model allows give different results",
  notMeasurable: "TW7070 | unsupported | speed is asked of something that has none, such as the emulator",
  peerFailed:
    "TW7071 | toolchain | the program of a peer does not start, fails, or prints something else than its times",
  noLadder: "TW7073 | unsupported | no backend offers a ladder of that name, or any, on the architecture",
  libraryTwice: "TW7080 | invalid | two operations or kernels of a library that nothing tells apart",
  badBackend: "TW7081 | invalid | a module that is named as a backend and is none",
  libraryFactors: "TW7082 | unsupported | launchers of a library have no place for scale factors",
  libraryTooLarge: "TW7084 | unsupported | a library of more kernels than one command makes unless told to",
  badArgument:
    "TW7085 | invalid | an argument of gemm() that is missing, of another type or of another length",
  libraryOrder:
    "TW7086 | unsupported | sizes of a batch-invariant operation that share no order of additions",
  libraryGroups: "TW7083 | unsupported | launchers of a library have no place for a table of groups",
} as const satisfies Record<string, `${CodeRow["code"]} | ${DiagnosticKind} | ${string}`>;

function rowOf(text: string): CodeRow {
  const [code = "", kind = "", meaning = ""] = text.split(" | ");
  return { code: code as CodeRow["code"], kind: kind as DiagnosticKind, meaning };
}

export const codes = Object.fromEntries(
  Object.entries(texts).map(([name, text]) => [name, rowOf(text)]),
) as Readonly<Record<keyof typeof texts, CodeRow>>;

/** A diagnostic of this package; its kind follows from its code. */
export function problemWith(
  row: CodeRow,
  at: string,
  message: string,
  more: { readonly hint?: string; readonly location?: SourceLocation } = {},
): Diagnostic {
  return { code: row.code, kind: row.kind, at, message, ...more };
}

/** One such diagnostic as the reason why there is no value. */
export const failWith = (...problem: Parameters<typeof problemWith>): Checked<never> =>
  err([problemWith(...problem)]);
