// SPDX-License-Identifier: Apache-2.0
//
// The least that uses an installed llmc: it prints the version of the library
// that was loaded, and fails if that is not the header's.
#include <llmc/llmc.h>

#include <stdio.h>
#include <string.h>

int main(void) {
  char header[32];
  snprintf(header, sizeof header, "%d.%d.%d", LLMC_VERSION_MAJOR, LLMC_VERSION_MINOR,
           LLMC_VERSION_PATCH);
  printf("%s\n", llmc_version());
  return strcmp(header, llmc_version()) == 0 ? 0 : 1;
}
