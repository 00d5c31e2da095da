/** Names of the global buffers of tile programs, and the operands that lie in them: the one place that has the letters. */

const operands = { A: "a", B: "b", C: "c", D: "d", SFA: "sfa", SFB: "sfb" } as const;

/** Matrices of a problem and factors of A and B, as launches name them. */
export type NamedOperand = (typeof operands)[keyof typeof operands];
export type MatrixName = Exclude<NamedOperand, "sfa" | "sfb">;

/** The operand of `%A`, `%B`, `%C`, `%D`, `%SFA` and `%SFB`; null for other buffers. */
export const namedOperand = (buffer: string): NamedOperand | null =>
  Object.hasOwn(operands, buffer) ? operands[buffer as keyof typeof operands] : null;

/** The matrix of `%A`, `%B`, `%C` and `%D`; null for other buffers. */
export function matrixOf(buffer: string): MatrixName | null {
  const operand = namedOperand(buffer);
  return operand === "sfa" || operand === "sfb" ? null : operand;
}

/** Names of matrices' buffers and of factors'. */
export const namedBuffers: readonly string[] = Object.keys(operands);

/** The operand behind a global buffer, whose rows and columns may be exchanged: of `%E3` `epilogue3`. Null for others. */
export function operandOfBuffer(buffer: string): NamedOperand | `epilogue${number}` | null {
  const own = exchangedOf(buffer) ?? buffer;
  const step = stepOfBuffer(own);
  return step === null ? namedOperand(own) : `epilogue${step}`;
}

/** The global buffer of an operand: `%A` of `a`, `%E3` of `epilogue3`. */
export const bufferOfOperand = (operand: string): string =>
  operand.startsWith("epilogue")
    ? stepBuffer(Number(operand.slice("epilogue".length)))
    : operand.toUpperCase();

/** `E0`: the global buffer of what a step reads, by the step's position. */
export const stepBuffer = (step: number): string => `E${step}`;

/** The step whose input a global buffer is; null for others. */
export function stepOfBuffer(name: string): number | null {
  const digits = /^E(\d+)$/.exec(name)?.[1];
  return digits === undefined ? null : Number(digits);
}

/** `AT`, `BT`, `E0T`: the same elements of memory as another global buffer has, with rows and columns exchanged. */
export const exchangedBuffer = (name: string): string => `${name}T`;

/** The buffer whose rows and columns a global buffer has exchanged; null for others. */
export const exchangedOf = (name: string): string | null => /^([AB]|E\d+)T$/.exec(name)?.[1] ?? null;

/** The name of the pointer that a global buffer of a program lies behind. */
export const pointerOf = (buffer: string): string => operandOfBuffer(buffer) ?? buffer.toLowerCase();
