// SPDX-License-Identifier: Apache-2.0
//
// Kernels for tests of drivers and executor: a freestanding image like those
// that the compiler makes, so small that a reader can check each by eye.
// Elements are f32 unless said otherwise.
#include "runtime/abi/KernelAbi.h"

#define EXPORT __attribute__((visibility("default")))

#ifndef TEST_ABI_VERSION
#define TEST_ABI_VERSION LLMC_KERNEL_ABI_VERSION
#endif
#ifndef TEST_WITHOUT_VERSION
EXPORT const uint32_t llmc_kernel_abi_version = TEST_ABI_VERSION;
#endif

// This worker's share [*begin, *end) of n elements.
static void share(int64_t n, int64_t worker, int64_t workers, int64_t *begin, int64_t *end) {
  *begin = n * worker / workers;
  *end = n * (worker + 1) / workers;
}

// out[i] = a[i] + b[i]; scalars: n
EXPORT int32_t test_add(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  const float *a = args->buffers[0];
  const float *b = args->buffers[1];
  float *out = args->buffers[2];
  int64_t i, end;
  for (share(args->scalars[0], worker, workers, &i, &end); i < end; ++i)
    out[i] = a[i] + b[i];
  return LLMC_KERNEL_OK;
}

// out[i, j] = a[i] * b[j]; scalars: rows, columns
EXPORT int32_t test_outer(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  const float *a = args->buffers[0];
  const float *b = args->buffers[1];
  float *out = args->buffers[2];
  int64_t columns = args->scalars[1];
  int64_t i, end;
  for (share(args->scalars[0], worker, workers, &i, &end); i < end; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = a[i] * b[j];
  return LLMC_KERNEL_OK;
}

// out[i] = in[n - 1 - i] * 1.25 + i: each worker reads what another one wrote; scalars: n
EXPORT int32_t test_mirror(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  const float *in = args->buffers[0];
  float *out = args->buffers[1];
  int64_t n = args->scalars[0];
  int64_t i, end;
  for (share(n, worker, workers, &i, &end); i < end; ++i)
    out[i] = in[n - 1 - i] * 1.25f + (float)i;
  return LLMC_KERNEL_OK;
}

// Sum of each 64-element block in order (the split depends on n alone); scalars: n
EXPORT int32_t test_block_sums(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  const float *in = args->buffers[0];
  float *out = args->buffers[1];
  int64_t n = args->scalars[0];
  int64_t block, end;
  for (share((n + 63) / 64, worker, workers, &block, &end); block < end; ++block) {
    float sum = 0.0f;
    for (int64_t i = block * 64; i < n && i < block * 64 + 64; ++i)
      sum += in[i];
    out[block] = sum;
  }
  return LLMC_KERNEL_OK;
}

// out[i] = value; scalars: n, value
EXPORT int32_t test_fill(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  float *out = args->buffers[0];
  int64_t i, end;
  for (share(args->scalars[0], worker, workers, &i, &end); i < end; ++i)
    out[i] = (float)args->scalars[1];
  return LLMC_KERNEL_OK;
}

// out[worker] (i64) = number of workers, once through its scratch of 256 bytes; -1 when that is
// not aligned to 64
EXPORT int32_t test_scratch(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  int64_t *out = args->buffers[0];
  volatile int64_t *scratch = args->scratch;
  for (int64_t i = 0; i < 32; ++i)
    scratch[i] = workers * 1000 + worker;
  int64_t value = workers;
  for (int64_t i = 0; i < 32; ++i)
    if (scratch[i] != workers * 1000 + worker)
      value = -2;
  out[worker] = (uintptr_t)args->scratch % 64 == 0 ? value : -1;
  return LLMC_KERNEL_OK;
}

// Worker scalars[0] (or every worker when it is negative) fails with code scalars[1]
EXPORT int32_t test_fail(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  if (args->scalars[0] < 0 || args->scalars[0] == worker)
    return (int32_t)args->scalars[1];
  return LLMC_KERNEL_OK;
}

// kv[t] = in[t - past] for the tokens from past on, 4 elements a token, through the block table;
// operands: in, kv; scalars: sequence, past
EXPORT int32_t test_kv_append(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  const float *in = args->buffers[0];
  void *const *blocks = args->buffers[1];
  int64_t past = args->scalars[1];
  int64_t t, end;
  for (share(args->scalars[0], worker, workers, &t, &end); t < end; ++t) {
    int64_t token = past + t;
    float *row = (float *)blocks[token / 64] + token % 64 * 4;
    for (int64_t i = 0; i < 4; ++i)
      row[i] = in[t * 4 + i];
  }
  return LLMC_KERNEL_OK;
}

// out[0..4) = sum over all tokens in order; operands: kv, out; scalars: tokens
EXPORT int32_t test_kv_sum(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  void *const *blocks = args->buffers[0];
  float *out = args->buffers[1];
  int64_t i, end;
  for (share(4, worker, workers, &i, &end); i < end; ++i) {
    float sum = 0.0f;
    for (int64_t token = 0; token < args->scalars[0]; ++token)
      sum += ((const float *)blocks[token / 64])[token % 64 * 4 + i];
    out[i] = sum;
  }
  return LLMC_KERNEL_OK;
}

// Nothing
EXPORT int32_t test_nop(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)args;
  (void)worker;
  (void)workers;
  return LLMC_KERNEL_OK;
}

#ifdef TEST_CONSTRUCTOR
// What no image may have.
static volatile int ran;
__attribute__((constructor)) static void runWhenLoaded(void) { ran = 1; }
EXPORT int32_t test_ran(void) { return ran; }
#endif
