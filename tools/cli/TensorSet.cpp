// SPDX-License-Identifier: Apache-2.0
//
// Which file or key holds which tensor, and when two tensors count as equal.
#include "tools/cli/TensorSet.h"

#include "tools/cli/NpyFile.h"
#include "tools/cli/NpzFile.h"
#include "tools/cli/ReadFile.h"
#include "tools/cli/TensorProto.h"
#include "tools/cli/WriteFile.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

/// A tensor's name as a file's: names hold slashes, which file names can't.
std::string fileStem(std::string_view name) {
  std::string stem(name);
  std::ranges::replace(stem, '/', '_');
  return stem;
}

/// Two-byte bits are bf16 where the model says so: files have no type for it.
void adoptDtype(OwnedTensor &tensor, const TensorSpec &spec) {
  if (tensor.dtype == Dtype::U16 && spec.dtype == Dtype::BF16)
    tensor.dtype = Dtype::BF16;
  tensor.name = spec.name;
}

Result<TensorSet> readNpzSet(const std::string &path, std::span<const TensorSpec> specs,
                             Side side) {
  LLMC_TRY_ASSIGN(Bytes bytes, readFile(path));
  auto opened = NpzReader::open(std::move(bytes));
  if (!opened.isOk())
    return opened.status().inContext(path);
  TensorSet set;
  for (const TensorSpec &spec : specs) {
    std::string key = (side == Side::Inputs ? "in:" : "out:") + spec.name;
    if (!opened->has(key))
      key = spec.name;
    if (!opened->has(key))
      continue;
    auto tensor = opened->read(key);
    if (!tensor.isOk())
      return tensor.status().inContext(path);
    adoptDtype(*tensor, spec);
    set.tensors.push_back(std::move(*tensor));
    set.masks.emplace_back();
    std::string maskKey = "mask:" + spec.name;
    if (side == Side::Outputs && opened->has(maskKey)) {
      auto mask = opened->read(maskKey);
      if (!mask.isOk())
        return mask.status().inContext(path);
      if (mask->dtype != Dtype::Bool)
        return Status::error(Code::InvalidArgument, "{}: '{}' is of type {}, not bool", path,
                             maskKey, dtypeName(mask->dtype));
      set.masks.back() = std::move(*mask);
    }
  }
  return set;
}

/// J of "input_J" for the prefix "input_".
std::optional<size_t> numberAfter(std::string_view stem, std::string_view prefix) {
  if (!stem.starts_with(prefix) || stem.size() == prefix.size() || stem.size() > prefix.size() + 6)
    return std::nullopt;
  size_t number = 0;
  for (char c : stem.substr(prefix.size())) {
    if (c < '0' || c > '9')
      return std::nullopt;
    number = number * 10 + size_t(c - '0');
  }
  return number;
}

struct FoundFile {
  fs::path path;
  std::optional<size_t> position; // J
  bool proto;
};

/// The folder's files that may hold tensors of `side`, by position and then by name.
Result<std::vector<FoundFile>> listFolder(const std::string &path, Side side) {
  std::string_view prefix = side == Side::Inputs ? "input_" : "output_";
  std::vector<FoundFile> files;
  std::error_code failure;
  for (fs::directory_iterator it(path, failure), end; !failure && it != end;
       it.increment(failure)) {
    std::string extension = it->path().extension();
    auto position = numberAfter(it->path().stem().native(), prefix);
    if (extension == ".npy" || (extension == ".pb" && position))
      files.push_back({it->path(), position, extension == ".pb"});
  }
  if (failure)
    return Status::error(Code::Unavailable, "can't read the folder '{}': {}", path,
                         failure.message());
  std::ranges::sort(files, [](const FoundFile &a, const FoundFile &b) {
    return std::tuple(a.position.value_or(SIZE_MAX), a.path.native()) <
           std::tuple(b.position.value_or(SIZE_MAX), b.path.native());
  });
  return files;
}

Result<TensorSet> readFolder(const std::string &path, std::span<const TensorSpec> specs,
                             Side side) {
  LLMC_TRY_ASSIGN(std::vector<FoundFile> files, listFolder(path, side));
  std::vector<std::optional<OwnedTensor>> found(specs.size());
  for (const FoundFile &file : files) {
    const auto *byStem = std::ranges::find_if(
        specs.data(), specs.data() + specs.size(),
        [&](const TensorSpec &spec) { return fileStem(spec.name) == file.path.stem(); });
    // Of an .npy file; what is in a .pb says its own name, and `output_1` may be that of output 0.
    bool named = !file.proto && byStem != specs.data() + specs.size();
    if (!named && !file.position)
      continue; // some other array that lies there
    LLMC_TRY_ASSIGN(Bytes bytes, readFile(file.path));
    auto tensor = file.proto ? parseTensorProto(bytes) : parseNpy(bytes);
    if (!tensor.isOk())
      return tensor.status().inContext(file.path);
    size_t index = named ? size_t(byStem - specs.data()) : file.position.value_or(0);
    if (!named && !tensor->name.empty()) {
      // The name inside is surer than the position: models may list inputs with defaults, which
      // a bundle doesn't have.
      auto byName = std::ranges::find(specs, tensor->name, &TensorSpec::name);
      if (byName != specs.end())
        index = size_t(byName - specs.begin());
    }
    if (index >= specs.size())
      return Status::error(Code::InvalidArgument,
                           "{} holds '{}', but the bundle has only {} {} and none of that name",
                           file.path.native(), tensor->name, specs.size(),
                           side == Side::Inputs ? "inputs" : "outputs");
    adoptDtype(*tensor, specs[index]);
    if (found[index])
      return Status::error(Code::InvalidArgument, "'{}' holds '{}' twice: again in {}", path,
                           specs[index].name, file.path.filename().native());
    found[index] = std::move(*tensor);
  }
  TensorSet set;
  for (auto &tensor : found)
    if (tensor)
      set.tensors.push_back(std::move(*tensor));
  set.masks.resize(set.tensors.size());
  return set;
}

bool isFloat(Dtype dtype) {
  return dtype == Dtype::F32 || dtype == Dtype::F64 || dtype == Dtype::F16 || dtype == Dtype::BF16;
}

std::string indexText(uint64_t flat, const Shape &dims) {
  Shape index(dims.size());
  for (size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = int64_t(flat % uint64_t(dims[axis]));
    flat /= uint64_t(dims[axis]);
  }
  return shapeText(index);
}

/// For element `flat` of a tensor of shape `dims`: the element of `mask`, which broadcasts to it.
uint64_t broadcastIndex(uint64_t flat, const Shape &dims, const Shape &mask) {
  uint64_t index = 0, step = 1;
  for (size_t axis = dims.size(), maskAxis = mask.size(); maskAxis > 0;) {
    --axis, --maskAxis;
    uint64_t position = flat % uint64_t(dims[axis]);
    flat /= uint64_t(dims[axis]);
    if (mask[maskAxis] != 1)
      index += position * step;
    step *= uint64_t(mask[maskAxis]);
  }
  return index;
}

bool broadcastsTo(const Shape &mask, const Shape &dims) {
  if (mask.size() > dims.size())
    return false;
  for (size_t i = 1; i <= mask.size(); ++i)
    if (mask[mask.size() - i] != 1 && mask[mask.size() - i] != dims[dims.size() - i])
      return false;
  return true;
}

} // namespace

Result<TensorSet> readTensorSet(const std::string &path, std::span<const TensorSpec> specs,
                                Side side) {
  std::error_code failure;
  if (fs::is_directory(path, failure))
    return readFolder(path, specs, side);
  if (path.ends_with(".npz"))
    return readNpzSet(path, specs, side);
  if (!fs::exists(path, failure))
    return Status::error(Code::NotFound, "there is no file or folder '{}'", path);
  return Status::error(Code::InvalidArgument,
                       "'{}' is neither a folder of .npy or .pb files nor an .npz file", path);
}

Status writeTensorSet(const std::string &path, std::span<const OwnedTensor> tensors) {
  if (path.ends_with(".npz")) {
    LLMC_TRY_ASSIGN(NpzWriter writer, NpzWriter::create(path));
    for (const OwnedTensor &tensor : tensors)
      LLMC_TRY(writer.add(tensor));
    return writer.finish();
  }
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure)
    return Status::error(Code::Unavailable, "can't make the folder '{}': {}", path,
                         failure.message());
  for (const OwnedTensor &tensor : tensors)
    LLMC_TRY(writeFile(fs::path(path) / (fileStem(tensor.name) + ".npy"), npyHeader(tensor),
                       tensor.data));
  return Status::ok();
}

Comparison compareTensors(const OwnedTensor &got, const OwnedTensor &want, const OwnedTensor *mask,
                          const Tolerance &tolerance) {
  Comparison result;
  auto differs = [&](std::string text) {
    result.equal = false;
    result.text = std::move(text);
    return result;
  };
  bool floating = isFloat(got.dtype) && isFloat(want.dtype);
  if (!floating && got.dtype != want.dtype)
    return differs(
        fmt::format("type {}, expected {}", dtypeName(got.dtype), dtypeName(want.dtype)));
  if (got.dims != want.dims)
    return differs(fmt::format("shape {}, expected {}", shapeText(got.dims), shapeText(want.dims)));
  if (mask && !broadcastsTo(mask->dims, want.dims))
    return differs(fmt::format("its mask of shape {} does not broadcast to {}",
                               shapeText(mask->dims), shapeText(want.dims)));

  uint64_t count = want.elements(), wrong = 0, compared = 0;
  uint64_t worstAbs = 0, worstRel = 0;
  bool anyError = false;
  uint64_t size = dtypeSize(got.dtype);
  for (uint64_t i = 0; i < count; ++i) {
    if (mask && !uint8_t(mask->data[broadcastIndex(i, want.dims, mask->dims)]))
      continue;
    ++compared;
    double have = elementAsDouble(got.dtype, got.data.data(), i);
    double expected = elementAsDouble(want.dtype, want.data.data(), i);
    bool same = floating ? have == expected || (std::isnan(have) && std::isnan(expected))
                         : std::memcmp(&got.data[i * size], &want.data[i * size], size) == 0;
    if (same)
      continue;
    double error = std::fabs(have - expected);
    double bound = floating              ? tolerance.atol + tolerance.rtol * std::fabs(expected)
                   : tolerance.atol >= 1 ? tolerance.atol
                                         : -1;
    // A NaN or infinity on one side only: no distance says how wrong that is.
    if (!std::isfinite(have) || !std::isfinite(expected))
      error = HUGE_VAL, bound = 0;
    double relative = expected == 0 ? HUGE_VAL : error / std::fabs(expected);
    if (!(error <= bound))
      ++wrong;
    if (!anyError || error > result.maxAbsError)
      result.maxAbsError = error, worstAbs = i;
    if (!anyError || relative > result.maxRelError)
      result.maxRelError = relative, worstRel = i;
    anyError = true;
  }
  if (wrong == 0)
    return result;
  auto element = [&](uint64_t index) {
    return fmt::format("at {}: got {:.9g}, expected {:.9g}", indexText(index, want.dims),
                       elementAsDouble(got.dtype, got.data.data(), index),
                       elementAsDouble(want.dtype, want.data.data(), index));
  };
  return differs(fmt::format("{} of {} elements differ; max abs error {:.3g} {}; max rel error "
                             "{:.3g} {}",
                             wrong, compared, result.maxAbsError, element(worstAbs),
                             result.maxRelError, element(worstRel)));
}

} // namespace llmc::cli
