/** Fields of a schedule by what they hold, for backends that give a schedule a type of their own. */
import type { Schedule } from "../schedule.ts";

export interface ScheduleReader {
  /** One number of a field that holds several; 1 where the field holds none there. */
  tuple(name: string, index: number): number;
  number(name: string): number;
  word(name: string): string;
}

/** The schedule has to be one of the model whose fields are asked for: what is no number reads as NaN. */
export const scheduleReader = (schedule: Schedule): ScheduleReader => ({
  tuple(name, index) {
    const value = schedule[name];
    return Array.isArray(value) ? (value[index] ?? 1) : 1;
  },
  number: (name) => Number(schedule[name]),
  word: (name) => String(schedule[name]),
});
