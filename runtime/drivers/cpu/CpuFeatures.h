// SPDX-License-Identifier: Apache-2.0
//
// The ISA levels that code in a bundle is built for, and what each needs of
// the CPU and the operating system. Images are named `<arch>-<level>.so`.
#ifndef LLMC_RUNTIME_DRIVERS_CPU_CPU_FEATURES_H
#define LLMC_RUNTIME_DRIVERS_CPU_CPU_FEATURES_H

#include <optional>
#include <string>
#include <string_view>

namespace llmc {

/// Architecture of this build as in image names: "x86_64", "aarch64"; "unknown" elsewhere.
std::string_view hostArch();

/// Position of a level of the host's architecture, higher is better; nothing when unknown.
std::optional<int> isaLevelRank(std::string_view level);

/// What this CPU (or its operating system) lacks for a known level: "avx512f, avx512bw"; empty when
/// it can run it.
std::string missingFeatures(std::string_view level);

/// The highest level this CPU can run; empty when it can run none.
std::string_view bestIsaLevel();

/// "AMD EPYC 7B13"; the architecture where the CPU doesn't say.
std::string cpuModelName();

} // namespace llmc

#endif // LLMC_RUNTIME_DRIVERS_CPU_CPU_FEATURES_H
