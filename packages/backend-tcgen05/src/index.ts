/** Public surface of `@tilewright/backend-tcgen05`. */
export { tcgen05 } from "./backend.ts";
export { lowerToModule } from "./lower/lower.ts";
export { scheduleModel } from "./schedule.ts";
