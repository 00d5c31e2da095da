/** Public surface of `@tilewright/backend-mma`. */
export { mma } from "./backend.ts";
export { lowerToModule } from "./lower/lower.ts";
export { scheduleModel } from "./schedule.ts";
