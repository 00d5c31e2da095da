/** Public surface of `@tilewright/backend-wgmma`. */
export { wgmma } from "./backend.ts";
export { scheduleModel, type WgmmaSchedule } from "./schedule.ts";
