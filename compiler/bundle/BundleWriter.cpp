// SPDX-License-Identifier: Apache-2.0
//
// Weights are streamed: their transforms are evaluated tile by tile while the
// archive is written, so memory does not grow with the model.
#include "compiler/bundle/BundleWriter.h"

#include "compiler/bundle/ArchiveWriter.h"
#include "compiler/bundle/ProgramBuilder.h"
#include "compiler/bundle/TileReader.h"
#include "compiler/ir/CanonicalRows.h"
#include "compiler/ir/WeightTransforms.h"
#include "compiler/ir/llm/Symbols.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace llmc {
namespace {

class BundleWriter {
public:
  BundleWriter(BundleContents &contents, std::function<void(uint64_t, uint64_t)> progress)
      : contents(contents), progress(std::move(progress)) {}

  llvm::Expected<BundleSummary> write(const std::string &path);

private:
  /// `source` in the format or element type that `op` reads.
  llvm::Expected<const Weight *> converted(rt::WeightOp op, const Weight *source);
  /// The store's weight that holds what `op` reads, packed.
  llvm::Expected<const Weight *> packed(rt::WeightOp op);
  llvm::Error resolveWeights();
  bool writeEntry(StringRef name, uint64_t alignment, StringRef bytes);
  bool writeConstant(rt::ConstantOp constant, uint64_t size);
  bool writeWeights(const BuiltProgram &program);
  /// Checks and describes a weight that was written.
  bool finishWeight(rt::WeightOp op, uint64_t size);
  bool finishEntry();
  std::string manifest();
  llvm::json::Value ioOf(ArrayRef<Type> types,
                         llvm::function_ref<DictionaryAttr(unsigned)> attrs) const;

  BundleContents &contents;
  std::function<void(uint64_t, uint64_t)> progress;
  std::unique_ptr<ArchiveWriter> archive;
  std::vector<ArchiveEntry> entries;
  llvm::StringMap<const Weight *> packedWeights; // by what was done to which weight
  DenseMap<Operation *, const Weight *> weightOf;
  DenseMap<const Weight *, const QuantizeRows *>
      quantizers;               // of rows and of what is packed of them
  llvm::json::Array weightList; // of the manifest
  std::string refusal;          // why a weight could not be written
  BundleSummary summary;
};

llvm::Expected<const Weight *> BundleWriter::converted(rt::WeightOp op, const Weight *source) {
  // A program may ask for fewer bits than the model brought.
  WeightStore &store = *contents.weights;
  ElementType element = fromMlirType(cast<RankedTensorType>(op.getType()).getElementType());
  if (std::optional<StringRef> name = op.getFormat()) {
    llvm::Expected<WeightFormat> format = WeightFormat::parse(*name);
    if (!format)
      return format.takeError();
    if (CanonicalRow::ofType(*format, source->type()))
      return source; // the model brought canonical rows
    std::string key = (source->name() + ":" + *name + (op.getTransposed() ? ":t" : ":n")).str();
    const Weight *&rows = packedWeights[key];
    if (!rows) {
      auto quantize = std::make_unique<QuantizeRows>(*format, op.getTransposed(), source->type());
      const QuantizeRows *transform = quantize.get();
      llvm::Expected<const Weight *> added =
          store.addTransformed(key, std::move(quantize), {source});
      if (!added)
        return added.takeError();
      rows = *added;
      quantizers[rows] = transform;
    }
    return rows;
  }
  if (element == source->type().element ||
      (element != ElementType::BF16 && element != ElementType::F16))
    return source;
  std::string key = (source->name() + ":" + elementName(element)).str();
  const Weight *&narrow = packedWeights[key];
  if (!narrow) {
    llvm::Expected<const Weight *> added = store.addTransformed(
        key, element == ElementType::BF16 ? convertToBf16() : convertToF16(), {source});
    if (!added)
      return added.takeError();
    narrow = *added;
  }
  return narrow;
}

llvm::Expected<const Weight *> BundleWriter::packed(rt::WeightOp op) {
  const Weight *source = contents.weights->find(op.getKey());
  if (!source)
    return llvm::createStringError("[LLMC1404] the program reads weight '" + op.getKey() +
                                   "', which was not imported");
  source = contents.weights->findEqual(*source);
  llvm::Expected<const Weight *> form = converted(op, source);
  if (!form)
    return form.takeError();
  std::string key = (op.getLayout() + (op.getTransposed() ? ":t:" : ":n:") + (*form)->name()).str();
  const Weight *&known = packedWeights[key];
  if (!known && op.getLayout() == "plain") {
    known = *form;
  } else if (!known) {
    std::unique_ptr<WeightTransform> transform =
        contents.target->packing(op.getLayout(), op.getTransposed());
    if (!transform)
      return llvm::createStringError("[LLMC1405] no target packs weights as '" + op.getLayout() +
                                     "'");
    llvm::Expected<const Weight *> added =
        contents.weights->addTransformed(key, std::move(transform), {*form});
    if (!added)
      return added.takeError();
    known = *added;
  }
  if (const QuantizeRows *quantizer = quantizers.lookup(*form))
    quantizers[known] = quantizer;
  return known;
}

llvm::Error BundleWriter::resolveWeights() {
  llvm::Error error = llvm::Error::success();
  contents.program.walk([&](rt::WeightOp op) {
    if (error)
      return;
    llvm::Expected<const Weight *> weight = packed(op);
    if (!weight) {
      error = weight.takeError();
      return;
    }
    weightOf[op] = *weight;
    op->setAttr("rt.bytes",
                IntegerAttr::get(IntegerType::get(op.getContext(), 64), (*weight)->byteSize()));
  });
  return error;
}

bool BundleWriter::finishEntry() {
  std::optional<ArchiveEntry> entry = archive->endEntry();
  if (entry)
    entries.push_back(*entry);
  return entry.has_value();
}

bool BundleWriter::writeEntry(StringRef name, uint64_t alignment, StringRef bytes) {
  return archive->beginEntry(std::string_view(name.data(), name.size()), alignment) &&
         archive->append(bytes.data(), bytes.size()) && finishEntry();
}

bool BundleWriter::writeConstant(rt::ConstantOp constant, uint64_t size) {
  auto values = cast<DenseElementsAttr>(constant.getValue());
  auto type = cast<RankedTensorType>(constant.getType());
  uint64_t element = size / std::max<uint64_t>(1, type.getNumElements());
  ArrayRef<char> raw = values.getRawData();
  if (!type.getElementType().isInteger(1) && !values.isSplat())
    return archive->append(raw.data(), raw.size());
  bool good = true;
  if (type.getElementType().isInteger(1)) {
    for (bool value : values.getValues<bool>())
      good = good && archive->append(value ? "\1" : "\0", 1);
  } else {
    for (int64_t i = 0; i < type.getNumElements() && good; ++i)
      good = archive->append(raw.data(), element);
  }
  return good;
}

bool BundleWriter::finishWeight(rt::WeightOp op, uint64_t size) {
  const Weight *weight = weightOf.lookup(op);
  const QuantizeRows *quantizer = quantizers.lookup(weight);
  std::string problem = quantizer ? quantizer->problem() : std::string();
  if (!problem.empty()) {
    refusal = ("[LLMC1406] weight '" + op.getKey() + "' cannot be stored as " + *op.getFormat() +
               ": " + problem)
                  .str();
    return false;
  }
  auto type = cast<RankedTensorType>(op.getType());
  std::string format = op.getFormat() ? op.getFormat()->str()
                                      : elementName(fromMlirType(type.getElementType())).str();
  llvm::json::Object entry{{"name", op.getKey()},
                           {"shape", llvm::json::Array(type.getShape())},
                           {"format", format},
                           {"layout", op.getLayout()},
                           {"bytes", int64_t(size)}};
  op.getLoc()->walk([&](Location location) {
    auto named = dyn_cast<NameLoc>(location);
    if (!named)
      return WalkResult::advance();
    entry["node"] = named.getName().getValue();
    return WalkResult::interrupt();
  });
  if (quantizer)
    entry["relative_error"] = quantizer->relativeError();
  weightList.push_back(std::move(entry));
  return true;
}

bool BundleWriter::writeWeights(const BuiltProgram &program) {
  if (program.weights.empty())
    return true;
  if (!archive->beginEntry(LLMC_ENTRY_WEIGHTS, LLMC_ALIGN_WEIGHTS))
    return false;
  TileReader tiles(*contents.program.getContext());
  for (const WeightSegment &segment : program.weights)
    if (const Weight *weight = weightOf.lookup(segment.source))
      tiles.add(*weight);
  for (const WeightSegment &segment : program.weights) {
    if (!archive->appendZeros(segment.offset - archive->entrySize()))
      return false;
    if (auto constant = dyn_cast<rt::ConstantOp>(segment.source)) {
      if (!writeConstant(constant, segment.size))
        return false;
      continue;
    }
    for (uint64_t done = 0; done < segment.size;) {
      ArrayRef<char> tile = tiles.next();
      if (!archive->append(tile.data(), tile.size()))
        return false;
      done += tile.size();
      if (progress)
        progress(archive->entrySize(), program.weightsSize);
    }
    if (!finishWeight(cast<rt::WeightOp>(segment.source), segment.size))
      return false;
  }
  return finishEntry();
}

llvm::json::Value BundleWriter::ioOf(ArrayRef<Type> types,
                                     llvm::function_ref<DictionaryAttr(unsigned)> attrs) const {
  llm::Symbols symbols(contents.program);
  llvm::json::Array list;
  for (auto [i, type] : llvm::enumerate(types)) {
    auto tensor = cast<RankedTensorType>(type);
    llvm::json::Array dims;
    for (AffineExpr dim : llm::dimsOf(type)) {
      if (std::optional<int64_t> size = llm::constantOf(dim))
        dims.push_back(*size);
      else
        dims.push_back(symbols.text(dim));
    }
    std::string element;
    llvm::raw_string_ostream(element) << tensor.getElementType();
    if (element == "i1")
      element = "bool";
    else if (StringRef(element).starts_with("ui"))
      element = "u" + element.substr(2);
    DictionaryAttr dictionary = attrs(i);
    auto textOf = [&](StringRef key, StringRef otherwise) {
      auto attr = dictionary ? dictionary.getAs<StringAttr>(key) : StringAttr();
      return attr ? attr.getValue() : otherwise;
    };
    list.push_back(llvm::json::Object{{"name", textOf("llm.name", "")},
                                      {"dtype", element},
                                      {"dims", std::move(dims)},
                                      {"role", textOf("llm.role", "other")}});
  }
  return list;
}

std::string BundleWriter::manifest() {
  llvm::json::Object entryList, targets, io, hashes;
  for (const ArchiveEntry &entry : entries)
    entryList[entry.name] =
        llvm::json::Object{{"sha256", entry.sha256}, {"size", int64_t(entry.size)}};
  llvm::json::Array targetList;
  for (const CodeImage &image : contents.images)
    targetList.push_back(llvm::json::Object{{"driver", image.driver},
                                            {"arch", image.arch},
                                            {"level", image.level},
                                            {"code", image.entry}});
  for (auto &[name, hash] : contents.inputHashes)
    hashes[name] = hash;
  for (auto function : contents.program.getOps<func::FuncOp>()) {
    auto kind = function->getAttrOfType<StringAttr>("rt.entry");
    io[kind ? kind.getValue() : function.getName()] = llvm::json::Object{
        {"inputs",
         ioOf(function.getArgumentTypes(), [&](unsigned i) { return function.getArgAttrDict(i); })},
        {"outputs", ioOf(function.getResultTypes(),
                         [&](unsigned i) { return function.getResultAttrDict(i); })}};
  }
  llvm::json::Object model{{"name", contents.modelName}};
  if (contents.maxContext > 0)
    model["max_context"] = contents.maxContext;
  llvm::json::Object root{
      {"format", std::to_string(LLMC_FORMAT_MAJOR) + "." + std::to_string(LLMC_FORMAT_MINOR)},
      {"generator", "llmc " LLMC_VERSION},
      {"entries", std::move(entryList)},
      {"targets", std::move(targetList)},
      {"inputs", std::move(hashes)},
      {"model", std::move(model)},
      {"io", std::move(io)}};
  if (!weightList.empty())
    root["weights"] = std::move(weightList);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(root)));
  return text;
}

llvm::Expected<BundleSummary> BundleWriter::write(const std::string &path) {
  if (llvm::Error error = resolveWeights())
    return error;
  FailureOr<BuiltProgram> program = buildProgram(contents.program, [&](rt::WeightOp op) {
    return ("weight:" + weightOf.lookup(op)->name()).str();
  });
  if (failed(program))
    return llvm::createStringError("the program could not be written (see above)");
  std::string error;
  archive = ArchiveWriter::open(path, error);
  if (!archive)
    return llvm::createStringError(std::errc::io_error, error.c_str());
  bool good = writeEntry(LLMC_ENTRY_PROGRAM, LLMC_ALIGN_DEFAULT, program->bytes);
  for (const CodeImage &image : contents.images)
    good = good && writeEntry(image.entry, LLMC_ALIGN_CODE, image.bytes);
  for (auto &[name, bytes] : contents.extraEntries)
    good = good && writeEntry(name, LLMC_ALIGN_DEFAULT, bytes);
  good = good && writeWeights(*program);
  good =
      good && writeEntry(LLMC_ENTRY_MANIFEST, LLMC_ALIGN_DEFAULT, manifest()) && archive->commit();
  if (!refusal.empty())
    return llvm::createStringError(refusal);
  if (!good)
    return llvm::createStringError(std::make_error_code(std::errc::io_error),
                                   archive->error().c_str());
  summary.weightBytes = program->weightsSize;
  summary.weights = program->weights.size();
  for (const ArchiveEntry &entry : entries)
    summary.fileSize = std::max(summary.fileSize, entry.offset + entry.size);
  return summary;
}

} // namespace

llvm::Expected<BundleSummary> writeBundle(const std::string &path, BundleContents &contents,
                                          std::function<void(uint64_t, uint64_t)> progress) {
  return BundleWriter(contents, std::move(progress)).write(path);
}

} // namespace llmc
