/** Programs of requests for attention, for tests. */
import type { Result } from "@tilewright/core";
import { type AxisProgram, attentionText, parseAxisProgram, readAttention } from "@tilewright/ir";

/** The value of a result; throws with its reasons. */
export function must<T>(made: Result<T, unknown>): T {
  if (!made.ok) throw new Error(JSON.stringify(made.error));
  return made.value;
}

export const textOf = (fields: object): string =>
  attentionText(must(readAttention({ op: "attention", ...fields })));

export const programOf = (fields: object): AxisProgram => must(parseAxisProgram(textOf(fields)));
