// SPDX-License-Identifier: Apache-2.0
//
// Where a device finds the bundle's weights: in the mapped file itself when it
// works in host memory, else in its own memory, to which just the parts are
// brought that its instructions name.
#ifndef LLMC_RUNTIME_EXEC_WEIGHT_PLACEMENT_H
#define LLMC_RUNTIME_EXEC_WEIGHT_PLACEMENT_H

#include "runtime/bundle/Program.h"
#include "runtime/core/Status.h"
#include "runtime/device/Device.h"
#include "runtime/exec/DeviceCopier.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace llmc {

class WeightPlacement {
public:
  /// Places all weights that `program` uses on device `index`. `weights` must outlive this.
  static Result<WeightPlacement> create(const Program &program, uint32_t index,
                                        std::shared_ptr<Device> device,
                                        std::span<const std::byte> weights);

  /// The place of the weights at `offset`, which is in a weight buffer of this device.
  Place at(uint64_t offset) const;

private:
  /// A stretch of weights.bin that lies in one piece.
  struct Piece {
    uint64_t begin = 0; // in weights.bin
    uint64_t end = 0;
    uint64_t offset = 0; // in the device's memory
  };
  std::span<const std::byte> host; // not empty: the device reads these
  DeviceMemory memory;
  std::vector<Piece> pieces; // by begin, disjoint
};

} // namespace llmc

#endif // LLMC_RUNTIME_EXEC_WEIGHT_PLACEMENT_H
