/**
 * The queue between a search and the GPUs that measure for it: BullMQ on Redis or Valkey. There is a queue for each GPU model, so that times of two models never meet; a job is a batch of
 * candidates that run in the same rounds, and its id is the hash of all that the batch says: the same batch is there once, whoever adds it and however often.
 */
import { deserialize, serialize } from "node:v8";
import { gunzipSync, gzipSync } from "node:zlib";
import { type Checked, ok, type Result } from "@tilewright/core";
import { type BenchFailure, type BenchJob, type BenchOutcome, gpuByDeviceName } from "@tilewright/runtime";
import type { ConnectionOptions } from "bullmq";
import { codes, failWith } from "../codes.ts";

/** Of the messages below; workers of another format have queues of their own. */
const FORMAT = 1;

/** Milliseconds for a server to answer when a command starts. */
const CONNECT_MS = 5000;

/** What travels: structured clones, since machine code is bytes and a ratio may be infinite. */
export interface Packed {
  readonly data: string;
}
export type BatchResult = Result<BenchOutcome, BenchFailure>;

const pack = (value: unknown): Packed => ({ data: gzipSync(serialize(value)).toString("base64") });
const unpack = ({ data }: Packed): unknown => deserialize(gunzipSync(Buffer.from(data, "base64")));
export const packJob = (job: BenchJob): Packed => pack(job);
export const unpackJob = (packed: Packed): BenchJob => unpack(packed) as BenchJob;
export const packResult = (result: BatchResult): Packed => pack(result);
export const unpackResult = (packed: Packed): BatchResult => unpack(packed) as BatchResult;

/** The model that a device name stands for: its row of the table, else the driver's own name. */
export const modelOf = (deviceName: string): string => gpuByDeviceName(deviceName)?.name ?? deviceName;

/** BullMQ keeps `:` for itself. */
export const queueName = (model: string): string =>
  `tilewright-tune-${FORMAT}-${model.replace(/[^\w.-]+/g, "-")}`;

/** Where the queue is. `shown` leaves out user and password. */
export interface QueuePlace {
  readonly url: string;
  readonly shown: string;
}

/** Error: TW7003 for what is no address of a server. */
export function queuePlace(text: string): Checked<QueuePlace> {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === "")
    return failWith(
      codes.badValue,
      "--queue",
      `'${text.replace(/\/\/[^/]*@/, "//")}' is no address of a Redis or Valkey server`,
      {
        hint: "redis://HOST:6379, redis://USER:PASSWORD@HOST:6379/0, or rediss:// with TLS",
      },
    );
  return ok({ url: text, shown: `${url.protocol}//${url.host}${url.pathname === "/" ? "" : url.pathname}` });
}

type Bull = typeof import("bullmq");

/** BullMQ, an optional dependency. Error: TW7054. */
async function loadBull(): Promise<Checked<Bull>> {
  try {
    // CommonJS: whoever bundles it keeps the default export alone.
    const bull: Bull & { readonly default?: Bull } = await import("bullmq");
    return ok(bull.default ?? bull);
  } catch {
    return failWith(codes.queueFailed, "--queue", "BullMQ is not installed", { hint: "npm install bullmq" });
  }
}

/** Milliseconds between two attempts to reach a server that is away. */
const RETRY_MS = 500;

/** Commands wait for a server that is away, as long as `wanted` says so; whoever waits for them counts the time. */
export const connectionOf = ({ url }: QueuePlace, wanted: () => boolean): ConnectionOptions =>
  ({
    ...{ url, connectTimeout: CONNECT_MS, maxRetriesPerRequest: null },
    retryStrategy: () => (wanted() ? RETRY_MS : null),
  }) as ConnectionOptions;

/** BullMQ, once the server has answered. Errors: TW7054 without BullMQ, or where nothing answers in {@link CONNECT_MS}. */
export async function connectQueue(place: QueuePlace): Promise<Checked<Bull>> {
  const bull = await loadBull();
  if (!bull.ok) return bull;
  const probe = new bull.value.Queue("tilewright-probe", { connection: connectionOf(place, () => false) });
  let reason = `no answer in ${CONNECT_MS / 1000} s`;
  let fail: (ready: false) => void = () => {};
  const failed = new Promise<false>((resolve) => {
    fail = resolve;
  });
  probe.on("error", (error) => {
    reason = error.message === "" ? reason : error.message;
    fail(false);
  });
  const timer = setTimeout(() => fail(false), CONNECT_MS);
  const ready = await Promise.race([
    failed,
    probe.waitUntilReady().then(
      () => true,
      () => false,
    ),
  ]);
  clearTimeout(timer);
  if (ready) {
    await probe.close();
    return bull;
  }
  // Not closed: it ends by itself, since nothing tries again, and closing it would reject a promise that is BullMQ's own.
  return failWith(codes.queueFailed, "--queue", `${place.shown}: ${reason}`, {
    hint: "a running Redis or Valkey server, which this machine reaches",
  });
}
