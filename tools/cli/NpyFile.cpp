// SPDX-License-Identifier: Apache-2.0
//
// The header of a .npy file is a Python dictionary literal with three known
// keys. It is read by a small recursive scanner that accepts that and no more.
#include "tools/cli/NpyFile.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>

namespace llmc::cli {

static_assert(std::endian::native == std::endian::little, "tensor files are read as they are");

namespace {

struct DtypeRow {
  std::string_view descr; // without the byte order
  Dtype dtype;
};
constexpr DtypeRow kDtypes[] = {
    {"V2", Dtype::BF16}, {"b1", Dtype::Bool}, {"f2", Dtype::F16}, {"f4", Dtype::F32},
    {"f8", Dtype::F64},  {"i1", Dtype::I8},   {"i2", Dtype::I16}, {"i4", Dtype::I32},
    {"i8", Dtype::I64},  {"u1", Dtype::U8},   {"u2", Dtype::U16}, {"u4", Dtype::U32},
    {"u8", Dtype::U64},
};

struct Header {
  std::string descr;
  bool fortranOrder = false;
  std::vector<int64_t> shape;
};

/// Scans `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
class HeaderScanner {
public:
  explicit HeaderScanner(std::string_view text) : rest(text) {}

  Result<Header> scan() {
    Header header;
    bool seen[3] = {};
    if (!take('{'))
      return bad("it does not start with '{'");
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':'))
        return bad("a key in quotes and ':' are expected");
      if (key == "descr") {
        seen[0] = true;
        if (!string(header.descr))
          return bad("structured element types are not supported");
      } else if (key == "fortran_order") {
        seen[1] = true;
        if (!boolean(header.fortranOrder))
          return bad("'fortran_order' is neither True nor False");
      } else if (key == "shape") {
        seen[2] = true;
        if (!tuple(header.shape))
          return bad("'shape' is not a tuple of sizes");
      } else {
        return bad("it has an unknown key");
      }
      if (!take(',')) {
        if (!take('}'))
          return bad("'}' is missing");
        break;
      }
    }
    if (!seen[0] || !seen[1] || !seen[2])
      return bad("'descr', 'fortran_order' or 'shape' is missing");
    return header;
  }

private:
  static Status bad(const char *why) {
    return Status::error(Code::Corrupt, "the .npy header can't be read: {}", why);
  }
  void skipBlanks() {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n'))
      rest.remove_prefix(1);
  }
  bool take(char c) {
    skipBlanks();
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool word(std::string_view text) {
    skipBlanks();
    if (!rest.starts_with(text))
      return false;
    rest.remove_prefix(text.size());
    return true;
  }
  bool string(std::string &value) {
    skipBlanks();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return false;
    size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      return false;
    value = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return true;
  }
  bool boolean(bool &value) {
    value = word("True");
    return value || word("False");
  }
  bool tuple(std::vector<int64_t> &values) {
    if (!take('('))
      return false;
    while (!take(')')) {
      skipBlanks();
      size_t digits = 0;
      int64_t value = 0;
      while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') {
        if (__builtin_mul_overflow(value, int64_t(10), &value) ||
            __builtin_add_overflow(value, int64_t(rest[digits] - '0'), &value))
          return false;
        ++digits;
      }
      if (digits == 0)
        return false;
      rest.remove_prefix(digits);
      word("L"); // Python 2 wrote long integers so
      values.push_back(value);
      if (!take(',')) {
        if (!take(')'))
          return false;
        break;
      }
    }
    return true;
  }

  std::string_view rest;
};

void swapBytes(Bytes &data, uint64_t elementSize) {
  for (size_t at = 0; at < data.size(); at += elementSize)
    std::reverse(data.begin() + at, data.begin() + at + elementSize);
}

/// Column-major bytes -> row-major bytes.
Bytes fromFortranOrder(const Bytes &data, std::span<const int64_t> dims, uint64_t elementSize) {
  Bytes result(data.size());
  std::vector<uint64_t> stride(dims.size()); // of the column-major source, in elements
  uint64_t step = 1;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    stride[axis] = step;
    step *= uint64_t(dims[axis]);
  }
  std::vector<int64_t> index(dims.size());
  uint64_t source = 0;
  for (size_t at = 0; at < data.size(); at += elementSize) {
    std::memcpy(&result[at], &data[source * elementSize], elementSize);
    for (size_t axis = dims.size(); axis-- > 0;) {
      source += stride[axis];
      if (++index[axis] < dims[axis])
        break;
      source -= stride[axis] * uint64_t(dims[axis]);
      index[axis] = 0;
    }
  }
  return result;
}

} // namespace

Result<OwnedTensor> parseNpy(std::span<const std::byte> bytes) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  auto byteAt = [&](size_t at) { return uint32_t(bytes[at]); };
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return Status::error(Code::Corrupt, "this is not a .npy array: its first bytes are wrong");
  uint32_t major = byteAt(6);
  if (major < 1 || major > 3)
    return Status::error(Code::Corrupt, ".npy format version {} is unknown", major);
  size_t prefix = major == 1 ? 10 : 12;
  if (bytes.size() < prefix)
    return Status::error(Code::Corrupt, "the .npy array is cut off in its header");
  size_t headerSize = byteAt(8) | byteAt(9) << 8;
  if (major > 1)
    headerSize |= size_t(byteAt(10)) << 16 | size_t(byteAt(11)) << 24;
  if (headerSize > bytes.size() - prefix)
    return Status::error(Code::Corrupt, "the .npy array is cut off in its header");
  HeaderScanner scanner(
      std::string_view(reinterpret_cast<const char *>(bytes.data()) + prefix, headerSize));
  LLMC_TRY_ASSIGN(Header header, scanner.scan());

  std::string_view descr = header.descr;
  bool bigEndian = descr.starts_with('>');
  if (!descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos)
    descr.remove_prefix(1);
  const auto *row = std::ranges::find(kDtypes, descr, &DtypeRow::descr);
  if (row == std::end(kDtypes))
    return Status::error(Code::InvalidArgument, "arrays of type '{}' are not supported",
                         header.descr);

  OwnedTensor tensor;
  tensor.dtype = row->dtype;
  tensor.dims = std::move(header.shape);
  uint64_t elementSize = dtypeSize(tensor.dtype);
  LLMC_TRY_ASSIGN(uint64_t size, tensorBytes(tensor.dtype, tensor.dims));
  std::span<const std::byte> body = bytes.subspan(prefix + headerSize);
  if (body.size() != size)
    return Status::error(Code::Corrupt,
                         "the .npy array holds {} bytes where its shape {} of {} needs {}",
                         body.size(), shapeText(tensor.dims), dtypeName(tensor.dtype), size);
  tensor.data.assign(body.begin(), body.end());
  if (bigEndian && elementSize > 1)
    swapBytes(tensor.data, elementSize);
  if (header.fortranOrder && tensor.dims.size() > 1 && size > 0)
    tensor.data = fromFortranOrder(tensor.data, tensor.dims, elementSize);
  return tensor;
}

std::string npyHeader(const OwnedTensor &tensor) {
  Dtype dtype = tensor.dtype == Dtype::BF16 ? Dtype::U16 : tensor.dtype;
  const auto *row = std::ranges::find(kDtypes, dtype, &DtypeRow::dtype);
  std::string shape;
  for (int64_t dim : tensor.dims)
    shape += fmt::format("{}, ", dim);
  if (tensor.dims.size() > 1)
    shape.resize(shape.size() - 2);
  std::string dictionary =
      fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                  dtypeSize(dtype) > 1 ? '<' : '|', row->descr, shape);
  // The array's bytes start at a multiple of 64, as NumPy writes them. Ranks beyond some
  // thousands, which a two-byte length could not hold, do not occur.
  size_t total = (10 + dictionary.size() + 1 + 63) / 64 * 64;
  dictionary.resize(total - 10 - 1, ' ');
  dictionary += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += char(dictionary.size() & 255);
  header += char(dictionary.size() >> 8);
  return header + dictionary;
}

} // namespace llmc::cli
