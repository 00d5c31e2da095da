/** A thread of Node that serves launches: its end of the channel is its data. */
import { workerData } from "node:worker_threads";
import { type LaunchPort, serveLaunches } from "../../src/index.ts";

serveLaunches(workerData as LaunchPort);
