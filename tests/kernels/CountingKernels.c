// SPDX-License-Identifier: Apache-2.0
//
// A language model that can be checked by hand: after tokens t0 … tp the next
// one is (t0 + … + tp + p) mod vocabulary. The sum is taken from what the cache
// holds, so a cache, a position or a mask that is wrong changes the answer or
// fails the call.
#include "runtime/abi/BundleFormat.h"
#include "runtime/abi/KernelAbi.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT const uint32_t llmc_kernel_abi_version = LLMC_KERNEL_ABI_VERSION;

// logits[v]: 10 for the next token, less for others, a little more for higher ids below it.
static void writeLogits(float *logits, int64_t vocabulary, int64_t next) {
  for (int64_t v = 0; v < vocabulary; ++v)
    logits[v] = v == next ? 10.0f : (float)v / (float)vocabulary;
}

static int64_t nextToken(int64_t sum, int64_t position, int64_t vocabulary) {
  return (sum + position) % vocabulary;
}

// What a cache (outer, tokens, inner) holds for a token.
static float cached(int64_t id, int64_t outer, int64_t inner) {
  return (float)(id + 1000 * outer + 100 * inner);
}

// ids (batch, sequence) -> logits (batch, sequence, vocabulary); scalars: batch, sequence,
// vocabulary
EXPORT int32_t count_all(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  const int64_t *ids = args->buffers[0];
  float *logits = args->buffers[1];
  int64_t batch = args->scalars[0], sequence = args->scalars[1], vocabulary = args->scalars[2];
  if (worker != 0)
    return LLMC_KERNEL_OK;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t sum = 0;
    for (int64_t s = 0; s < sequence; ++s) {
      int64_t id = ids[b * sequence + s];
      if (id < 0 || id >= vocabulary)
        return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
      sum += id;
      writeLogits(logits + (b * sequence + s) * vocabulary, vocabulary,
                  nextToken(sum, s, vocabulary));
    }
  }
  return LLMC_KERNEL_OK;
}

// ids (1, sequence), mask (1, past + sequence), positions (1, sequence), past (outer, past, inner)
// -> logits (1, sequence, vocabulary), present (outer, past + sequence, inner); scalars: sequence,
// past, outer, inner, vocabulary
EXPORT int32_t count_cached(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  const int64_t *ids = args->buffers[0], *mask = args->buffers[1], *positions = args->buffers[2];
  const float *past = args->buffers[3];
  float *logits = args->buffers[4], *present = args->buffers[5];
  int64_t sequence = args->scalars[0], length = args->scalars[1], outer = args->scalars[2];
  int64_t inner = args->scalars[3], vocabulary = args->scalars[4], total = length + sequence;
  if (worker != 0)
    return LLMC_KERNEL_OK;
  for (int64_t t = 0; t < total; ++t)
    if (mask[t] != 1)
      return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
  for (int64_t s = 0; s < sequence; ++s)
    if (positions[s] != length + s || ids[s] < 0 || ids[s] >= vocabulary)
      return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t t = 0; t < total; ++t)
      for (int64_t i = 0; i < inner; ++i)
        present[(o * total + t) * inner + i] =
            t < length ? past[(o * length + t) * inner + i] : cached(ids[t - length], o, i);
  int64_t sum = 0;
  for (int64_t t = 0; t < total; ++t) {
    int64_t id = (int64_t)present[t * inner];
    // Every corner of the cache must still say the same.
    int64_t last = (outer - 1) * total + t;
    if (present[last * inner + inner - 1] != cached(id, outer - 1, inner - 1))
      return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
    sum += id;
    if (t >= length)
      writeLogits(logits + (t - length) * vocabulary, vocabulary, nextToken(sum, t, vocabulary));
  }
  return LLMC_KERNEL_OK;
}

// ids (1, sequence), positions (1, sequence), sum (1) -> logits (1, vocabulary), sum (1);
// scalars: sequence, vocabulary. A state of fixed size, as recurrent models have.
EXPORT int32_t count_state(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  const int64_t *ids = args->buffers[0], *positions = args->buffers[1];
  const float *before = args->buffers[2];
  float *logits = args->buffers[3], *after = args->buffers[4];
  int64_t sequence = args->scalars[0], vocabulary = args->scalars[1];
  if (worker != 0)
    return LLMC_KERNEL_OK;
  float sum = *before;
  for (int64_t s = 0; s < sequence; ++s) {
    if (ids[s] < 0 || ids[s] >= vocabulary)
      return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
    sum += (float)ids[s];
  }
  *after = sum;
  writeLogits(logits, vocabulary, nextToken((int64_t)sum, positions[sequence - 1], vocabulary));
  return LLMC_KERNEL_OK;
}

// ids (1, sequence), blocks -> logits (1, 1, vocabulary), blocks; scalars: sequence, past,
// vocabulary. A token has 4 floats in its block.
EXPORT int32_t count_blocks(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  const int64_t *ids = args->buffers[0];
  float *const *blocks = args->buffers[1];
  float *logits = args->buffers[2];
  int64_t sequence = args->scalars[0], past = args->scalars[1], vocabulary = args->scalars[2];
  if (worker != 0)
    return LLMC_KERNEL_OK;
  int64_t total = past + sequence, sum = 0;
  for (int64_t t = 0; t < total; ++t) {
    float *row = blocks[t / LLMC_KV_BLOCK_TOKENS] + t % LLMC_KV_BLOCK_TOKENS * 4;
    for (int64_t i = 0; i < 4 && t >= past; ++i) {
      if (ids[t - past] < 0 || ids[t - past] >= vocabulary)
        return LLMC_KERNEL_INDEX_OUT_OF_RANGE;
      row[i] = cached(ids[t - past], 0, i);
    }
    sum += (int64_t)row[0];
  }
  writeLogits(logits, vocabulary, nextToken(sum, total - 1, vocabulary));
  return LLMC_KERNEL_OK;
}

// out = in, for any element type; scalars: bytes
EXPORT int32_t copy_bytes(const llmc_kernel_args *args, int64_t worker, int64_t workers) {
  (void)workers;
  const unsigned char *in = args->buffers[0];
  unsigned char *out = args->buffers[1];
  for (int64_t i = 0; worker == 0 && i < args->scalars[0]; ++i)
    out[i] = in[i];
  return LLMC_KERNEL_OK;
}
