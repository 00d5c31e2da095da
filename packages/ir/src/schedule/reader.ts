/** What a schedule says, typed by the fields of its model. */
import type { Schedule, ScheduleModel, ScheduleValues } from "@tilewright/core";

/** Each field's meaning, the default's where the schedule has no such field. Values must be well formed (the codec sees to that), not legal. */
export const scheduleValues = <const M extends ScheduleModel>(
  model: M,
  schedule: Schedule,
): ScheduleValues<M> =>
  Object.fromEntries(
    model.fields.map((field) => {
      const value = schedule[field.name] ?? field.default;
      return [field.name, field.read === undefined ? value : field.read(value)];
    }),
  ) as ScheduleValues<M>;
