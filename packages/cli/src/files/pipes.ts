/**
 * Standard input and pipes, whole. The main thread reads them, where waiting for a writer keeps nothing from ending, and the worker that wants
 * the text sleeps until it is there.
 */
import { constants, openSync } from "node:fs";
import { Socket } from "node:net";
import { MessageChannel, type MessagePort, receiveMessageOnPort } from "node:worker_threads";

/** Most bytes of a text: many times any PTX or JSON, and little enough that a writer who never ends is told in a second. */
export const MOST_TEXT_BYTES = 256 * 2 ** 20;

/** What stands against reading a file that the system would read; its message follows "cannot read FILE: ". */
export class Unreadable extends Error {}

export const tooLong = (): Unreadable => new Unreadable("it is longer than the 256 MiB that a text may have");

/** What the worker asks for. */
export interface PipeRequest {
  /** Standard input unless given. */
  readonly path?: string | undefined;
  /** Becomes 1 when the reply is at `reply`. */
  readonly ready: Int32Array;
  readonly reply: MessagePort;
}

type Reply = { readonly text: string } | { readonly tooLong: true } | { readonly code: string };

/** Ask the main thread, by `send`, for all of standard input or of the pipe at `path`. {@link tooLong} and the system's errors are thrown. */
export function awaitPipe(send: (request: PipeRequest, moved: MessagePort) => void, path?: string): string {
  const { port1, port2 } = new MessageChannel();
  const ready = new Int32Array(new SharedArrayBuffer(4));
  send({ path, ready, reply: port2 }, port2);
  Atomics.wait(ready, 0, 0);
  const reply: Reply = receiveMessageOnPort(port1)?.message;
  port1.close();
  if ("text" in reply) return reply.text;
  throw "code" in reply ? Object.assign(new Error(reply.code), { code: reply.code }) : tooLong();
}

/** Answer {@link awaitPipe}. */
export async function servePipe({ path, ready, reply }: PipeRequest): Promise<void> {
  const read = await readStream(path).catch(
    (error: NodeJS.ErrnoException): Reply => ({ code: error.code ?? error.message }),
  );
  reply.postMessage(read);
  Atomics.store(ready, 0, 1);
  Atomics.notify(ready, 0);
}

async function readStream(path: string | undefined): Promise<Reply> {
  // Opening a pipe that nobody writes to waits, unless told not to; its end comes when a writer has been and gone.
  const handle = path === undefined ? null : openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  const stream =
    handle === null ? process.stdin : new Socket({ fd: handle, readable: true, writable: false });
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of stream) {
    bytes += part.length;
    if (bytes > MOST_TEXT_BYTES) return { tooLong: true };
    parts.push(part);
  }
  return { text: Buffer.concat(parts).toString("utf8") };
}
