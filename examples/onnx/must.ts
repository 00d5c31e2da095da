import { type Checked, formatDiagnostic } from "@tilewright/core";

/** The value, or an exception with every reason. */
export function must<T>(result: Checked<T>): T {
  if (!result.ok) throw new Error(result.error.map(formatDiagnostic).join("\n"));
  return result.value;
}
