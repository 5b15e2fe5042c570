// SPDX-License-Identifier: Apache-2.0
//
// llmc.h must be usable from C11 as it is, with pedantic warnings as errors.
// The initialisers are macros, so they are expanded here too.
#include "llmc/llmc.h"

static const llmc_bundle_options kBundle = LLMC_BUNDLE_OPTIONS_INIT;
static const llmc_session_options kSession = LLMC_SESSION_OPTIONS_INIT;
static const llmc_tokenize_options kTokenize = LLMC_TOKENIZE_OPTIONS_INIT;
static const llmc_detokenize_options kDetokenize = LLMC_DETOKENIZE_OPTIONS_INIT;
static const llmc_generate_options kGenerate = LLMC_GENERATE_OPTIONS_INIT;

int llmc_c_compliance(void);
int llmc_c_compliance(void) {
  return kBundle.struct_size == sizeof kBundle && kSession.struct_size == sizeof kSession &&
         kTokenize.struct_size == sizeof kTokenize &&
         kDetokenize.struct_size == sizeof kDetokenize &&
         kGenerate.struct_size == sizeof kGenerate && kGenerate.temperature < 0 &&
         kGenerate.top_k < 0;
}
