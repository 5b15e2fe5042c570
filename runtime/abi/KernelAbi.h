// SPDX-License-Identifier: Apache-2.0
//
// How a driver calls a CPU kernel. A kernel is a phase function: every worker
// of a team calls it with its own number, and each does a part that depends on
// (worker, workers) and on shapes only. How a reduction is split depends on
// shapes alone, so results are the same bits for any number of workers.
#ifndef LLMC_RUNTIME_ABI_KERNEL_ABI_H
#define LLMC_RUNTIME_ABI_KERNEL_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bumped whenever the structs or the signature below change. Every CPU image exports it as
 * `const uint32_t llmc_kernel_abi_version`. */
#define LLMC_KERNEL_ABI_VERSION 1u
#define LLMC_KERNEL_ABI_SYMBOL "llmc_kernel_abi_version"

typedef struct llmc_kernel_args {
  void *const *buffers;   /* operands in dispatch order; KV operands are `void *const *` blocks */
  const int64_t *scalars; /* sizes the kernel's record lists */
  void *scratch;          /* this worker's own scratch_bytes, 64-byte aligned */
} llmc_kernel_args;

/* What a kernel returns. The first worker that fails decides the error of the call. */
enum {
  LLMC_KERNEL_OK = 0,
  LLMC_KERNEL_INDEX_OUT_OF_RANGE = 1, /* Gather, Scatter, embedding: an index outside its axis */
  LLMC_KERNEL_DIVISION_BY_ZERO = 2,   /* integer Div or Mod by zero */
};

typedef int32_t (*llmc_kernel_fn)(const llmc_kernel_args *args, int64_t worker, int64_t workers);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // LLMC_RUNTIME_ABI_KERNEL_ABI_H
