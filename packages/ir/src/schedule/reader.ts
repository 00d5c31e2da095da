/** What a schedule says, typed by the fields of its model. */
import type { Schedule, ScheduleModel, ScheduleValues } from "@tilewright/core";

/** Each field's meaning, the default's where the schedule has no such field. Values must be well formed (the codec sees to that), not legal. */
export const scheduleValues = <const M extends ScheduleModel>(
  model: M,
  schedule: Schedule,
): ScheduleValues<M> => {
  // Of thousands of schedules a problem: no list of pairs in between.
  const values: Record<string, unknown> = {};
  for (const { name, default: usual, read } of model.fields) {
    const value = schedule[name] ?? usual;
    values[name] = read === undefined ? value : read(value);
  }
  return values as ScheduleValues<M>;
};
