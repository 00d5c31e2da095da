/** The JSON form of a schedule, from its model. */
import { z } from "zod";
import type { ScheduleModel } from "../schedule.ts";

/**
 * Schema of a record of schedule fields, all optional. A value is what the model holds (number, word, list of numbers) or its text.
 * Wrong values and unknown fields are errors at their path; `scheduleFromRecord` gives the same errors as diagnostics with hints.
 */
export function scheduleSchema(model: ScheduleModel) {
  const entries = model.fields.map((field) => {
    const off = field.off === null ? "" : ` Off: ${field.print(field.off)}.`;
    const schema = z
      .union([z.number(), z.string(), z.array(z.number())])
      .refine((value) => field.parse(field.print(value)) !== null, { error: `does not fit ${field.syntax}` })
      .optional()
      .describe(`${field.summary}. ${field.syntax}; default ${field.print(field.default)}.${off}`);
    return [field.name, schema] as const;
  });
  return z.strictObject(Object.fromEntries(entries));
}
