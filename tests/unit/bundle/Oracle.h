// SPDX-License-Identifier: Apache-2.0
//
// Runs other programs as oracles: Python's standard library and unzip.
#ifndef LLMC_TESTS_UNIT_BUNDLE_ORACLE_H
#define LLMC_TESTS_UNIT_BUNDLE_ORACLE_H

#include <cstdio>
#include <cstdlib>
#include <string>

namespace llmc::test {

struct CommandResult {
  int status; ///< exit status; -1 when it didn't end by itself
  std::string output;
};

/// Runs a shell command; its output and errors together.
inline CommandResult runCommand(const std::string &command) {
  CommandResult result{-1, {}};
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe)
    return result;
  char buffer[4096];
  while (size_t size = fread(buffer, 1, sizeof buffer, pipe))
    result.output.append(buffer, size);
  int status = pclose(pipe);
  if (WIFEXITED(status))
    result.status = WEXITSTATUS(status);
  return result;
}

inline bool hasCommand(const std::string &name) {
  return runCommand("command -v " + name).status == 0;
}

/// `script` must not contain single quotes.
inline CommandResult runPython(const std::string &script, const std::string &arguments) {
  return runCommand("python3 -c '" + script + "' " + arguments);
}

} // namespace llmc::test

#endif // LLMC_TESTS_UNIT_BUNDLE_ORACLE_H
