/** Schedules for people. */
import { type Compiler, parseSchedule } from "@tilewright/ir";

/**
 * A schedule's text without the fields that are at their defaults, the first one (the tile) apart: the same schedule to whoever reads it back. `text`
 * itself where the backend is not among the compiler's.
 */
export function briefSchedule(compiler: Compiler, backend: string, text: string): string {
  const model = compiler.backends.find(({ id }) => id === backend)?.schedule;
  const schedule = model === undefined ? null : parseSchedule(model, text);
  if (model === undefined || schedule === null || !schedule.ok) return text;
  return model.fields
    .flatMap((field, i) => {
      const value = field.print(schedule.value[field.name] ?? field.default);
      return i === 0 || value !== field.print(field.default) ? [`${field.name}=${value}`] : [];
    })
    .join(" ");
}
