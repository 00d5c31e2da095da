/** A thread that makes kernels for `tilewright tune`: a request in, PTX and launch data out. Never imported: compile.ts starts it. */
import { parentPort } from "node:worker_threads";
import { compiler } from "../compiler.ts";
import { type CompileAsk, compileHere } from "./compile.ts";

parentPort?.on("message", (ask: CompileAsk) => parentPort?.postMessage(compileHere(compiler, ask)));
