// SPDX-License-Identifier: Apache-2.0
//
// The names of input and output roles, as the C API and inspect show them.
#ifndef LLMC_RUNTIME_LLM_IO_ROLE_H
#define LLMC_RUNTIME_LLM_IO_ROLE_H

#include "runtime/abi/BundleFormat.h"

namespace llmc {

constexpr const char *roleName(uint32_t role) {
  switch (role) {
  case LLMC_ROLE_IDS:
    return "ids";
  case LLMC_ROLE_EMBEDDINGS:
    return "embeddings";
  case LLMC_ROLE_POSITIONS:
    return "positions";
  case LLMC_ROLE_MASK:
    return "mask";
  case LLMC_ROLE_PAST:
    return "past";
  case LLMC_ROLE_PRESENT:
    return "present";
  case LLMC_ROLE_LOGITS:
    return "logits";
  case LLMC_ROLE_CACHE_POSITION:
    return "cache-position";
  case LLMC_ROLE_USE_CACHE:
    return "use-cache";
  default:
    return "other";
  }
}

} // namespace llmc

#endif // LLMC_RUNTIME_LLM_IO_ROLE_H
