// SPDX-License-Identifier: Apache-2.0
//
// What a level of a CPU architecture offers to kernels, as facts. Kernels ask
// for these, never for a level's name.
#ifndef LLMC_CODEGEN_CPU_ISA_LEVEL_H
#define LLMC_CODEGEN_CPU_ISA_LEVEL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace llmc::cpu {

struct IsaLevel {
  llvm::StringLiteral name;   ///< "avx2"
  llvm::StringLiteral arch;   ///< "x86_64"
  llvm::StringLiteral triple; ///< for LLVM
  llvm::StringLiteral cpu;    ///< for LLVM: the level's baseline, e.g. "x86-64-v3"
  llvm::StringLiteral extras; ///< for LLVM: features above the baseline, "+avx512vnni"
  llvm::StringLiteral tune;   ///< for LLVM: the machine whose costs are assumed
  unsigned lanes;             ///< f32 lanes of a vector register
  unsigned registers;         ///< vector registers
  unsigned prefetchBytes;     ///< distance of software prefetch in weight streams, 0: none
  bool byteDots;              ///< has vpdpbusd on its vectors: 4 products of bytes a lane
  bool isEmulated = false;    ///< whether only the instructions of the lowest level may be named
};

/// All levels, lowest first within an architecture.
llvm::ArrayRef<IsaLevel> isaLevels();
/// Null when there is none of that name.
const IsaLevel *findIsaLevel(llvm::StringRef name);
/// `level` with its registers and lanes, but compiled for the lowest level of its architecture.
IsaLevel emulatedIsaLevel(const IsaLevel &level);
/// The highest level that this machine has.
const IsaLevel &hostIsaLevel();

} // namespace llmc::cpu

#endif // LLMC_CODEGEN_CPU_ISA_LEVEL_H
