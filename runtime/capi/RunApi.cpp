// SPDX-License-Identifier: Apache-2.0
//
// llmc.h: running a model on named tensors. Tensors are brought into the
// model's order here; outputs nobody asked for get memory for the call.
#include "runtime/capi/BundleHandle.h"
#include "runtime/capi/CBoundary.h"
#include "runtime/llm/HostBuffer.h"

#include <algorithm>
#include <string_view>

using namespace llmc;
using namespace llmc::capi;

namespace {

constexpr size_t kNotGiven = SIZE_MAX;

/// A context borrowed from the model for one call.
class BorrowedContext {
public:
  explicit BorrowedContext(Model &model) : model(model), context(model.takeContext()) {}
  ~BorrowedContext() { model.giveContext(std::move(context)); }
  BorrowedContext(const BorrowedContext &) = delete;
  ExecContext *operator->() { return context.get(); }

private:
  Model &model;
  std::unique_ptr<ExecContext> context;
};

std::string namesOf(const std::vector<std::unique_ptr<IoText>> &list) {
  std::string text;
  for (const auto &io : list)
    text += (text.empty() ? "'" : ", '") + io->name + "'";
  return text.empty() ? "none" : text;
}

/// For each of `list`, which of the caller's tensors it is.
Result<std::vector<size_t>> match(const std::vector<std::unique_ptr<IoText>> &list,
                                  const llmc_tensor *tensors, size_t count, const char *kind) {
  std::vector<size_t> found(list.size(), kNotGiven);
  if (count > 0)
    LLMC_TRY(checkGiven(tensors, kind));
  for (size_t i = 0; i < count; ++i) {
    LLMC_TRY(checkGiven(tensors[i].name, "name"));
    std::string_view name = tensors[i].name;
    auto io = std::ranges::find_if(list, [&](const auto &text) { return text->name == name; });
    if (io == list.end())
      return Status::error(kind[0] == 'o' ? Code::NotFound : Code::InvalidArgument,
                           "there is no {} '{}'; the model has {}", kind, name, namesOf(list));
    auto index = static_cast<size_t>(io - list.begin());
    if (found[index] != kNotGiven)
      return Status::error(Code::InvalidArgument, "{} '{}' is given twice", kind, name);
    found[index] = i;
  }
  return found;
}

/// `data` may be used where it lies. Callers get memory from everywhere, so it may not be aligned.
bool isAligned(const void *data, Dtype dtype) {
  return reinterpret_cast<uintptr_t>(data) % dtypeSize(dtype) == 0;
}

struct Call {
  size_t entry;
  std::vector<ConstTensor> inputs;
  std::vector<HostBuffer> copies; // of inputs that aren't aligned
};

Result<Call> prepareCall(const llmc_bundle &bundle, const llmc_tensor *inputs, size_t count,
                         bool needData) {
  auto run = bundle.model->runEntry();
  if (!run)
    return Status::error(Code::InvalidArgument,
                         "the bundle has no entry for runs, only for sessions");
  LLMC_TRY_ASSIGN(std::vector<size_t> found, match(bundle.inputs, inputs, count, "input"));
  Call call;
  call.entry = *run;
  call.copies.resize(found.size());
  std::string missing;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == kNotGiven) {
      missing += (missing.empty() ? "'" : ", '") + bundle.inputs[i]->name + "'";
      continue;
    }
    const llmc_tensor &given = inputs[found[i]];
    if (given.rank > LLMC_TENSOR_MAX_RANK)
      return Status::error(Code::InvalidArgument, "input '{}' has rank {}; at most {} is possible",
                           given.name, given.rank, LLMC_TENSOR_MAX_RANK);
    ConstTensor tensor;
    tensor.dtype = static_cast<Dtype>(static_cast<uint32_t>(given.dtype));
    tensor.shape.assign(given.dims, given.dims + given.rank);
    auto bytes = tensorBytes(tensor.dtype, tensor.shape);
    if (!bytes.isOk())
      return bytes.status().inContext(fmt::format("input '{}'", given.name));
    tensor.data = given.data;
    if (needData && *bytes > 0) {
      LLMC_TRY(checkGiven(given.data, "data"));
      if (given.byte_size < *bytes)
        return Status::error(Code::InvalidArgument,
                             "input '{}' of shape {} needs {} bytes, but byte_size is {}",
                             given.name, shapeText(tensor.shape), *bytes, given.byte_size);
      if (!isAligned(given.data, tensor.dtype)) {
        LLMC_TRY(call.copies[i].reserve(*bytes));
        std::memcpy(call.copies[i].data(), given.data, *bytes);
        tensor.data = call.copies[i].data();
      }
    }
    call.inputs.push_back(std::move(tensor));
  }
  if (!missing.empty())
    return Status::error(Code::InvalidArgument, "these inputs are missing: {}", missing);
  return call;
}

Status describe(const IoText &io, const Shape &shape, llmc_tensor &out) {
  if (shape.size() > LLMC_TENSOR_MAX_RANK)
    return Status::error(Code::InvalidArgument, "output '{}' has rank {}; at most {} is possible",
                         io.name, shape.size(), LLMC_TENSOR_MAX_RANK);
  out.dtype = static_cast<llmc_dtype>(io.dtype);
  out.rank = static_cast<uint32_t>(shape.size());
  std::ranges::copy(shape, out.dims);
  return Status::ok();
}

} // namespace

llmc_status llmc_output_shapes(llmc_bundle *bundle, const llmc_tensor *inputs, size_t input_count,
                               llmc_tensor *outputs, size_t output_count, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    LLMC_TRY_ASSIGN(Call call, prepareCall(*bundle, inputs, input_count, false));
    LLMC_TRY_ASSIGN(std::vector<size_t> wanted,
                    match(bundle->outputs, outputs, output_count, "output"));
    BorrowedContext context(*bundle->model);
    LLMC_TRY_ASSIGN(std::vector<Shape> shapes, context->outputShapes(call.entry, call.inputs));
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i] == kNotGiven)
        continue;
      llmc_tensor &out = outputs[wanted[i]];
      LLMC_TRY(describe(*bundle->outputs[i], shapes[i], out));
      LLMC_TRY_ASSIGN(uint64_t bytes, tensorBytes(bundle->outputs[i]->dtype, shapes[i]));
      out.byte_size = bytes;
    }
    return Status::ok();
  });
}

llmc_status llmc_run(llmc_bundle *bundle, const llmc_tensor *inputs, size_t input_count,
                     llmc_tensor *outputs, size_t output_count, llmc_error **error) {
  return guarded(error, [&]() -> Status {
    LLMC_TRY(checkGiven(bundle, "bundle"));
    LLMC_TRY_ASSIGN(Call call, prepareCall(*bundle, inputs, input_count, true));
    LLMC_TRY_ASSIGN(std::vector<size_t> wanted,
                    match(bundle->outputs, outputs, output_count, "output"));
    BorrowedContext context(*bundle->model);
    LLMC_TRY_ASSIGN(std::vector<Shape> shapes, context->outputShapes(call.entry, call.inputs));

    std::vector<Tensor> results(shapes.size());
    std::vector<HostBuffer> own(shapes.size()); // for outputs not wanted or not aligned
    std::vector<uint64_t> sizes(shapes.size());
    for (size_t i = 0; i < shapes.size(); ++i) {
      const IoText &io = *bundle->outputs[i];
      LLMC_TRY_ASSIGN(sizes[i], tensorBytes(io.dtype, shapes[i]));
      results[i] = {io.dtype, shapes[i], nullptr};
      if (wanted[i] != kNotGiven) {
        llmc_tensor &out = outputs[wanted[i]];
        LLMC_TRY(describe(io, shapes[i], out));
        if (sizes[i] > 0)
          LLMC_TRY(checkGiven(out.data, "data"));
        if (out.byte_size < sizes[i])
          return Status::error(Code::ResourceExhausted,
                               "output '{}' of shape {} needs {} bytes, but byte_size is {}",
                               io.name, shapeText(shapes[i]), sizes[i], out.byte_size);
        if (isAligned(out.data, io.dtype))
          results[i].data = out.data;
      }
      if (!results[i].data && sizes[i] > 0) {
        LLMC_TRY(own[i].reserve(sizes[i]));
        results[i].data = own[i].data();
      }
    }
    LLMC_TRY(context->run(call.entry, call.inputs, results));
    for (size_t i = 0; i < shapes.size(); ++i)
      if (wanted[i] != kNotGiven && sizes[i] > 0 && results[i].data == own[i].data())
        std::memcpy(outputs[wanted[i]].data, own[i].data(), sizes[i]);
    return Status::ok();
  });
}
