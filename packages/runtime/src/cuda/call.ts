/** A driver status as a diagnostic: name, meaning, what to do next. */
import type { Checked, Diagnostic } from "@tilewright/core";
import { diagnose } from "../diagnostics.ts";
import type { CudaDriver, CudaResult, CudaStatus } from "./driver.ts";
import { cudaErrors } from "./errors.ts";

/**
 * The diagnostic for `status` of a driver call. `at`: what was being done, e.g. `device.alloc`.
 * `detail` is put after the meaning: sizes, the JIT's log.
 */
export function statusDiagnostic(
  driver: Pick<CudaDriver, "getErrorName" | "getErrorString">,
  at: string,
  status: CudaStatus,
  detail = "",
): Diagnostic {
  const row = cudaErrors.get(status);
  if (row !== undefined) {
    return diagnose(row.as, at, `${row.meaning} (${row.name}, error ${status})${detail}`, row.next);
  }
  const name = driver.getErrorName(status) ?? "an error this driver has no name for";
  const text = driver.getErrorString(status) ?? "the driver call failed";
  return diagnose("call", at, `${text} (${name}, error ${status})${detail}`);
}

/** A driver result as a `Checked`. */
export function checkedCall<T>(
  driver: Pick<CudaDriver, "getErrorName" | "getErrorString">,
  at: string,
  result: CudaResult<T>,
): Checked<T> {
  return result.ok ? result : { ok: false, error: [statusDiagnostic(driver, at, result.error)] };
}
