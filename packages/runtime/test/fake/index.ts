/** Models of the libraries of a GPU, for the tests of every package: the CUDA driver, NVML, cuBLASLt. */
export { createFakeDriver, fakeH200 } from "./cuda/index.ts";
