// SPDX-License-Identifier: Apache-2.0
//
// Which names a bundle's entries may have: one rule for who writes and who
// reads them.
#ifndef LLMC_RUNTIME_ABI_ENTRY_NAME_H
#define LLMC_RUNTIME_ABI_ENTRY_NAME_H

#include "runtime/abi/BundleFormat.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether `name`, of `size` bytes, is a relative path of letters, digits and `._+-`, without empty,
 * `.` or `..` parts, of at most LLMC_MAX_ENTRY_NAME bytes. 1 or 0. */
static inline int llmc_is_entry_name(const char *name, size_t size) {
  if (size == 0 || size > LLMC_MAX_ENTRY_NAME)
    return 0;
  size_t begin = 0; /* of the part between slashes */
  for (size_t i = 0; i <= size; ++i) {
    if (i == size || name[i] == '/') {
      size_t length = i - begin;
      if (length == 0 || (length == 1 && name[begin] == '.') ||
          (length == 2 && name[begin] == '.' && name[begin + 1] == '.'))
        return 0;
      begin = i + 1;
      continue;
    }
    char c = name[i];
    if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
          c == '_' || c == '+' || c == '-'))
      return 0;
  }
  return 1;
}

#ifdef __cplusplus
} // extern "C"
#endif

#endif // LLMC_RUNTIME_ABI_ENTRY_NAME_H
