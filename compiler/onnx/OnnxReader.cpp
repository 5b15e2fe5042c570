// SPDX-License-Identifier: Apache-2.0
//
// Maps, strips and parses; the only place that runs protobuf's parser.
#include "compiler/onnx/OnnxReader.h"

#include "compiler/ir/MappedFile.h"
#include "compiler/onnx/OnnxModelData.h"
#include "compiler/onnx/PayloadStripper.h"

#include <google/protobuf/io/coded_stream.h>

#include <exception>
#include <system_error>

using namespace llvm;

namespace llmc {
namespace {

Error badModel(const Twine &text) {
  return createStringError(std::make_error_code(std::errc::invalid_argument), text);
}

Expected<std::unique_ptr<OnnxModel>> parse(std::unique_ptr<OnnxModel::Data> data,
                                           ArrayRef<char> bytes) {
  if (bytes.empty())
    return badModel("[LLMC1001] '" + data->path + "' is empty");
  Expected<StrippedModel> stripped = stripPayloads(bytes);
  if (!stripped)
    return badModel(toString(stripped.takeError()) + " (in '" + data->path + "', " +
                    Twine(bytes.size()) + " bytes)");
  try {
    google::protobuf::io::CodedInputStream in(
        reinterpret_cast<const uint8_t *>(stripped->message.data()),
        static_cast<int>(stripped->message.size()));
    // Graph, node and attribute make three levels for each level of regions.
    in.SetRecursionLimit(3 * static_cast<int>(kMaxRegionDepth) + 100);
    if (!data->proto.ParseFromCodedStream(&in) || !in.ConsumedEntireMessage())
      return badModel("[LLMC1001] '" + data->path + "' is not an ONNX model: protobuf rejects it");
  } catch (const std::exception &error) {
    return badModel("[LLMC1001] '" + data->path + "' cannot be parsed: " + error.what());
  }
  if (!data->proto.has_graph())
    return badModel("[LLMC1002] '" + data->path + "' has no graph, so it is not an ONNX model");
  data->payloads = std::move(stripped->payloads);
  return std::make_unique<OnnxModel>(std::move(data));
}

} // namespace

OnnxModel::OnnxModel(std::unique_ptr<Data> data) : content(std::move(data)) {}
OnnxModel::~OnnxModel() = default;
const std::string &OnnxModel::path() const { return content->path; }

Expected<std::unique_ptr<OnnxModel>> OnnxReader::open(const std::string &path) {
  Expected<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file) {
    std::error_code code;
    std::string text;
    handleAllErrors(file.takeError(), [&](const ErrorInfoBase &info) {
      code = info.convertToErrorCode();
      text = info.message();
    });
    return createStringError(code, "[LLMC1000] " + text);
  }
  auto data = std::make_unique<OnnxModel::Data>();
  data->path = path;
  data->hasFolder = true;
  data->owner = *file;
  return parse(std::move(data), (*file)->bytes());
}

Expected<std::unique_ptr<OnnxModel>> OnnxReader::fromBytes(ArrayRef<char> bytes) {
  auto data = std::make_unique<OnnxModel::Data>();
  data->path = "<memory>";
  return parse(std::move(data), bytes);
}

} // namespace llmc
