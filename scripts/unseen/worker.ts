/** A process that makes kernels for measure.ts: what is asked for in, machine code and launch data out. Never imported: measure.ts starts it. */
import { type Asked, make } from "./compile.ts";

process.on("message", ({ at, asked }: { at: number; asked: Asked }) => {
  make(asked).then(
    (made) => process.send?.({ at, made }),
    (error: unknown) => process.send?.({ at, made: [], error: String(error) }),
  );
});
