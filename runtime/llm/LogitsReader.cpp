// SPDX-License-Identifier: Apache-2.0
//
// One sequence's logits are (1, steps, vocabulary) or (1, vocabulary): the last
// token's are the last `vocabulary` elements in every case.
#include "runtime/llm/LogitsReader.h"

#include <bit>
#include <cmath>

namespace llmc {

namespace {

float halfToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31;
  uint32_t mantissa = bits & 1023;
  if (exponent == 0)
    return std::copysign(std::ldexp(static_cast<float>(mantissa), -24), bits >> 15 ? -1.f : 1.f);
  exponent = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << 13);
}

} // namespace

Result<LogitsReader> LogitsReader::create(const Program &program, const llmc_entry_record &entry) {
  LogitsReader reader;
  std::span<const llmc_io_record> outputs = program.outputs(entry);
  for (; reader.index < outputs.size(); ++reader.index) {
    const llmc_io_record &io = outputs[reader.index];
    if (io.role != LLMC_ROLE_LOGITS)
      continue;
    auto dtype = Dtype(io.dtype);
    if (dtype != Dtype::F32 && dtype != Dtype::F64 && dtype != Dtype::F16 && dtype != Dtype::BF16)
      return Status::error(Code::InvalidArgument, "can't generate: the logits '{}' are of type {}",
                           program.string(io.name), dtypeName(dtype));
    return reader;
  }
  return Status::error(Code::InvalidArgument, "can't generate: the model has no output of logits");
}

Status LogitsReader::read(const Tensor &logits) {
  uint64_t vocabulary = logits.shape.empty() ? 0 : static_cast<uint64_t>(logits.shape.back());
  LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(logits.dtype, logits.shape));
  uint64_t count = bytes / dtypeSize(logits.dtype);
  if (vocabulary == 0 || count == 0)
    return Status::error(Code::InvalidArgument, "can't generate: the logits are empty, of shape {}",
                         shapeText(logits.shape));
  uint64_t first = count - vocabulary;
  if (logits.dtype == Dtype::F32) {
    view = {static_cast<const float *>(logits.data) + first, vocabulary};
    return Status::ok();
  }
  converted.resize(vocabulary);
  for (uint64_t i = 0; i < vocabulary; ++i) {
    if (logits.dtype == Dtype::F64)
      converted[i] = static_cast<float>(static_cast<const double *>(logits.data)[first + i]);
    else if (logits.dtype == Dtype::F16)
      converted[i] = halfToFloat(static_cast<const uint16_t *>(logits.data)[first + i]);
    else
      converted[i] = std::bit_cast<float>(
          static_cast<uint32_t>(static_cast<const uint16_t *>(logits.data)[first + i]) << 16);
  }
  view = converted;
  return Status::ok();
}

} // namespace llmc
