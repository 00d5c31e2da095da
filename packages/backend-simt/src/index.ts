/** Public surface of `@tilewright/backend-simt`. */
export { simt } from "./backend.ts";
export { lowerToModule } from "./lower/lower.ts";
export { scheduleModel } from "./schedule.ts";
