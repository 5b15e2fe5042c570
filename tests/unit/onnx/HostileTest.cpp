// SPDX-License-Identifier: Apache-2.0
//
// Models from strangers: each is one clear error in bounded time and memory,
// and nothing outside of the model's folder is read.
#include "tests/unit/onnx/ImportFixture.h"

#include <chrono>
#include <ctime>
#include <fstream>
#include <random>

#include <sys/stat.h>

using namespace mlir;
namespace fs = std::filesystem;

namespace llmc::test {
namespace {

class HostileTest : public ImportTest {
protected:
  HostileTest() : start(std::chrono::steady_clock::now()) {}
  ~HostileTest() override {
    // Tells a hang from a slow, sanitized build; how fast it is, a test can't say.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(240));
  }
  std::chrono::steady_clock::time_point start;
};

class ExternalTest : public ImportTest {
protected:
  ExternalTest() : model(makeModel()), tensor(model.mutable_graph()->add_initializer()) {
    tensor->set_name("w");
    tensor->set_data_type(pb::TensorProto::FLOAT);
    tensor->add_dims(3);
    tensor->set_data_location(pb::TensorProto::EXTERNAL);
    addOutput(model, "w");
  }
  void set(const std::string &key, const std::string &value) {
    pb::StringStringEntryProto *entry = tensor->add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  void write(const fs::path &path, const std::string &bytes) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void saveTo(const fs::path &path) { write(path, model.SerializeAsString()); }
  bool importAt(const fs::path &path) { return importFile(path.string()); }

  pb::ModelProto model;
  pb::TensorProto *tensor;
  std::string data = rawOf<float>({1, 2, 3, 4, 5});
};

TEST_F(ExternalTest, ReadsRangesOfSharedFiles) {
  write(folder / "sub dir" / "data.bin", data);
  set("location", "sub dir/data.bin");
  set("offset", "4");
  set("length", "12");
  set("checksum", "whatever");
  pb::TensorProto *other = model.mutable_graph()->add_initializer();
  *other = *tensor;
  other->set_name("v"); // overlapping is fine
  other->mutable_external_data()->DeleteSubrange(1, 2);
  addOutput(model, "v");
  saveTo(folder / "model.onnx");
  ASSERT_TRUE(importAt(folder / "model.onnx")) << errors[0];
  EXPECT_EQ(bytesOf("w"), rawOf<float>({2, 3, 4}));
  EXPECT_EQ(bytesOf("v"), rawOf<float>({1, 2, 3}));
  EXPECT_EQ(store->find("w")->view().data(), store->find("v")->view().data() + 4);
  ASSERT_EQ(store->files().size(), 2u);
  EXPECT_EQ(store->files()[1], (folder / "sub dir" / "data.bin").string());
  bool small = false; // shape arithmetic needs external constants too
  module->walk([&](onnx::WeightOp op) { small = op.getValueAttr() != nullptr; });
  EXPECT_TRUE(small);
}

TEST_F(ExternalTest, LengthZeroMeansUpToTheEndOfTheTensor) {
  write(folder / "data.bin", data);
  set("location", "data.bin");
  set("length", "0");
  saveTo(folder / "model.onnx");
  ASSERT_TRUE(importAt(folder / "model.onnx"));
  EXPECT_EQ(bytesOf("w"), rawOf<float>({1, 2, 3}));
}

TEST_F(ExternalTest, RangesThatDoNotFitAreErrors) {
  write(folder / "data.bin", data);
  struct {
    std::vector<std::pair<std::string, std::string>> entries;
    std::string error;
  } cases[] = {
      {{{"offset", "12"}},
       "[LLMC1063] tensor 'w' needs 12 bytes from offset 12 on in 'data.bin', which has 20 bytes"},
      {{{"offset", "21"}}, "[LLMC1063]"},
      {{{"offset", "18446744073709551615"}}, "[LLMC1063]"},
      {{{"offset", "18446744073709551616"}}, "[LLMC1062]"},
      {{{"offset", "-4"}}, "[LLMC1062]"},
      {{{"offset", "0x4"}}, "[LLMC1062]"},
      {{{"offset", " 4"}}, "[LLMC1062]"},
      {{{"offset", ""}}, "[LLMC1062]"},
      {{{"offset", "1e3"}}, "[LLMC1062]"},
      {{{"length", "8"}}, "[LLMC1052] tensor 'w' needs 12 bytes"},
      {{{"length", "16"}}, "[LLMC1052]"},
      {{{"length", "-1"}}, "[LLMC1062]"},
      {{{"length", "12"}, {"length", "8"}}, "[LLMC1062]"},
      {{{"location", "other.bin"}}, "[LLMC1062]"},
  };
  for (const auto &c : cases) {
    tensor->clear_external_data();
    set("location", "data.bin");
    for (const auto &[key, value] : c.entries)
      set(key, value);
    saveTo(folder / "model.onnx");
    EXPECT_FALSE(importAt(folder / "model.onnx")) << c.error;
    EXPECT_EQ(errors.size(), 1u);
    EXPECT_TRUE(hasError(c.error)) << errors[0];
    EXPECT_TRUE(hasError("'w'"));
  }
  tensor->clear_external_data();
  saveTo(folder / "model.onnx");
  EXPECT_FALSE(importAt(folder / "model.onnx"));
  EXPECT_TRUE(hasError("without a location"));
}

TEST_F(ExternalTest, HugeShapesOverSmallFilesCostNothing) {
  write(folder / "data.bin", data);
  set("location", "data.bin");
  tensor->set_dims(0, int64_t(1) << 60);
  saveTo(folder / "model.onnx");
  EXPECT_FALSE(importAt(folder / "model.onnx"));
  EXPECT_TRUE(hasError("[LLMC1063]"));
}

TEST_F(ExternalTest, NothingOutsideOfTheFolderIsRead) {
  write(folder / "outside.bin", data);
  write(folder / "m2" / "data.bin", data); // a sibling whose name begins alike
  write(folder / "m" / "sub" / "x", "");
  fs::create_symlink(folder / "outside.bin", folder / "m" / "link.bin");
  fs::create_symlink("..", folder / "m" / "up");
  fs::create_symlink("../m2/data.bin", folder / "m" / "sibling.bin");
  for (const std::string &location :
       {std::string("../outside.bin"), std::string("sub/../../outside.bin"),
        (folder / "outside.bin").string(), std::string("link.bin"), std::string("up/outside.bin"),
        std::string("sibling.bin"), std::string("/etc/passwd"), std::string(""),
        std::string("sub/.."), std::string("..")}) {
    tensor->clear_external_data();
    set("location", location);
    saveTo(folder / "m" / "model.onnx");
    EXPECT_FALSE(importAt(folder / "m" / "model.onnx")) << location;
    EXPECT_TRUE(hasError("[LLMC1060]")) << errors[0];
    EXPECT_TRUE(hasError("'w'"));
  }
  for (const char *location : {".", "sub", "missing.bin", "sub/x/y", "./"}) {
    tensor->clear_external_data();
    set("location", location);
    saveTo(folder / "m" / "model.onnx");
    EXPECT_FALSE(importAt(folder / "m" / "model.onnx")) << location;
    EXPECT_TRUE(hasError("[LLMC106")) << errors[0];
  }
  tensor->clear_external_data();
  set("location", std::string("data.bin\0x", 10));
  saveTo(folder / "m" / "model.onnx");
  EXPECT_FALSE(importAt(folder / "m" / "model.onnx"));
}

TEST_F(ExternalTest, PipesAreRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  set("location", "pipe");
  saveTo(folder / "model.onnx");
  EXPECT_FALSE(importAt(folder / "model.onnx"));
  EXPECT_TRUE(hasError("not a regular file"));
  EXPECT_FALSE(importAt(folder / "pipe"));
  EXPECT_FALSE(importAt(folder));
  EXPECT_FALSE(importAt(folder / "missing.onnx"));
  EXPECT_TRUE(hasError("[LLMC1000] cannot read"));
}

TEST_F(ExternalTest, HubCacheLayout) {
  // models--x/blobs/HASH and models--x/snapshots/REV/{model.onnx,model.onnx_data} -> blobs
  fs::path blobs = folder / "blobs", snapshot = folder / "snapshots" / "rev" / "onnx";
  fs::create_directories(snapshot);
  write(blobs / "hash2", data);
  set("location", "model.onnx_data");
  saveTo(blobs / "hash1");
  fs::create_symlink("../../../blobs/hash1", snapshot / "model.onnx");
  fs::create_symlink("../../../blobs/hash2", snapshot / "model.onnx_data");
  ASSERT_TRUE(importAt(snapshot / "model.onnx")) << errors[0];
  EXPECT_EQ(bytesOf("w"), rawOf<float>({1, 2, 3}));
  // The same link is no licence for other places.
  write(folder / "secret", data);
  fs::remove(snapshot / "model.onnx_data");
  fs::create_symlink("../../../secret", snapshot / "model.onnx_data");
  EXPECT_FALSE(importAt(snapshot / "model.onnx"));
  EXPECT_TRUE(hasError("[LLMC1060]"));
}

TEST_F(ExternalTest, LinkToAModelFindsTheDataBesideTheRealFile) {
  write(folder / "real" / "data.bin", data);
  set("location", "data.bin");
  saveTo(folder / "real" / "model.onnx");
  fs::create_symlink("real/model.onnx", folder / "link.onnx");
  ASSERT_TRUE(importAt(folder / "link.onnx")) << errors[0];
  EXPECT_EQ(bytesOf("w"), rawOf<float>({1, 2, 3}));
}

TEST_F(ExternalTest, RelativeModelPath) {
  write(folder / "data.bin", data);
  set("location", "data.bin");
  saveTo(folder / "model.onnx");
  fs::path before = fs::current_path();
  fs::current_path(folder);
  EXPECT_TRUE(importFile("model.onnx")) << errors[0];
  fs::current_path(before);
}

TEST_F(ExternalTest, ModelsFromMemoryHaveNoFolder) {
  set("location", "data.bin");
  expectError(model, "[LLMC1060]");
}

TEST_F(ExternalTest, DataInBothPlacesIsAnError) {
  write(folder / "data.bin", data);
  set("location", "data.bin");
  tensor->set_raw_data(rawOf<float>({1, 2, 3}));
  saveTo(folder / "model.onnx");
  EXPECT_FALSE(importAt(folder / "model.onnx"));
  EXPECT_TRUE(hasError("[LLMC1053]"));
}

pb::ModelProto sample() {
  pb::ModelProto model = makeModel();
  addInput(model, "x", {2, 3});
  setTensor(model.mutable_graph()->add_initializer(), "w", pb::TensorProto::FLOAT, {3},
            rawOf<float>({1, 2, 3}));
  addNode(model, "add:Add", {"x", "w"}, {"y"});
  pb::NodeProto *branch = addNode(model, "If", {"y"}, {"z"});
  pb::GraphProto *then =
      addAttribute(branch, "then_branch", pb::AttributeProto::GRAPH)->mutable_g();
  setTensor(addAttribute(addNode(then->mutable_node(), "Constant", {}, {"c"}), "value",
                         pb::AttributeProto::TENSOR)
                ->mutable_t(),
            "", pb::TensorProto::INT64, {2}, rawOf<int64_t>({1, 2}));
  then->add_output()->set_name("c");
  addOutput(model, "z");
  return model;
}

TEST_F(HostileTest, FilesCutAnywhere) {
  std::string bytes = sample().SerializeAsString();
  ASSERT_TRUE(importBytes(bytes));
  for (size_t length = 0; length < bytes.size(); ++length) {
    if (!importBytes(bytes.substr(0, length)))
      EXPECT_FALSE(errors.empty());
  }
  EXPECT_FALSE(importBytes(bytes.substr(0, bytes.size() / 2)));
  EXPECT_TRUE(hasError("[LLMC1001] field 7"));
  EXPECT_TRUE(hasError("the file ends at byte " + std::to_string(bytes.size() / 2)));
  EXPECT_FALSE(importBytes(""));
}

TEST_F(HostileTest, FlippedBits) {
  std::string bytes = sample().SerializeAsString();
  for (size_t at = 0; at < bytes.size() * 8; ++at) {
    std::string flipped = bytes;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ 1 << at % 8);
    importBytes(flipped);
  }
}

TEST_F(HostileTest, RandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 200, 0);
    for (char &byte : bytes)
      byte = static_cast<char>(random());
    if (round % 2 == 0) // in the place of a graph
      bytes = std::string("\x08\x08\x3a", 3) + static_cast<char>(bytes.size() & 0x7f) + bytes;
    importBytes(bytes);
  }
}

/// Tag and length of a field that holds `size` bytes.
std::string fieldHead(char field, size_t size) {
  std::string out(1, static_cast<char>(field << 3 | 2));
  for (; size >= 0x80; size >>= 7)
    out.push_back(static_cast<char>(size | 0x80));
  out.push_back(static_cast<char>(size));
  return out;
}

std::string lengthPrefixed(char field, const std::string &payload) {
  return fieldHead(field, payload.size()) + payload;
}

/// `innermost` inside of `depth` times the fields of `wrap`, each given what is inside so far as
/// its last part. Linear in depth, unlike wrapping strings.
template <typename Wrap> std::string nest(int depth, const std::string &innermost, Wrap wrap) {
  std::vector<std::string> heads;
  size_t size = innermost.size();
  for (int i = 0; i < depth; ++i)
    for (const auto &[before, field] : wrap) {
      heads.push_back(before + fieldHead(field, size));
      size += heads.back().size();
    }
  std::string out;
  for (size_t i = heads.size(); i-- > 0;)
    out += heads[i];
  return out + innermost;
}

using Wraps = std::vector<std::pair<std::string, char>>;

TEST_F(HostileTest, DeeplyNestedRegions) {
  std::string isGraph("\xa0\x01\x05", 3);                   // attribute type
  Wraps region = {{lengthPrefixed(1, "body") + isGraph, 6}, // graph in attribute
                  {lengthPrefixed(4, "Loop"), 5},           // attribute in node
                  {"", 1}};                                 // node in graph
  for (int depth : {100, 127, 128, 129, 10000}) {
    std::string graph = nest(depth, lengthPrefixed(2, "innermost"), region);
    std::string model = std::string("\x08\x08", 2) + lengthPrefixed(7, graph) +
                        lengthPrefixed(8, std::string("\x10\x11", 2));
    EXPECT_EQ(importBytes(model), depth <= 128) << depth;
    if (depth > 128)
      EXPECT_TRUE(hasError("[LLMC1004]")) << errors[0];
  }
}

TEST_F(HostileTest, DeeplyNestedTypes) {
  for (int depth : {50, 10000}) {
    std::string type = nest(depth, "", Wraps{{"", 1}, {"", 4}}); // sequence of …
    std::string model =
        std::string("\x08\x08", 2) +
        lengthPrefixed(7, lengthPrefixed(11, lengthPrefixed(1, "x") + lengthPrefixed(2, type)));
    EXPECT_EQ(importBytes(model), depth == 50);
  }
}

TEST_F(HostileTest, PayloadFieldOfTheReaderCannotBeForged) {
  // Unknown varint field 2^29-1 of a TensorProto, which the reader uses itself.
  std::string marker("\xf8\xff\xff\xff\x0f\x00", 6);
  pb::ModelProto model = makeModel();
  setTensor(model.mutable_graph()->add_initializer(), "w", pb::TensorProto::FLOAT, {1},
            rawOf<float>({1}));
  std::string forged = lengthPrefixed(8, "v") + std::string("\x10\x01\x08\x01", 4) + marker;
  std::string bytes =
      model.SerializeAsString() +
      lengthPrefixed(7, lengthPrefixed(5, forged) + lengthPrefixed(12, lengthPrefixed(1, "v")));
  EXPECT_FALSE(importBytes(bytes));
  EXPECT_TRUE(hasError("tensor 'v' needs 4 bytes for its shape, but 0 were found"));
}

TEST_F(HostileTest, UnknownFieldsAndGroupsAreSkipped) {
  std::string bytes = sample().SerializeAsString();
  std::string group("\xc3\x3e\x08\x01\xc4\x3e", 6); // field 1000: begin, a varint, end
  EXPECT_TRUE(importBytes(bytes + group));
  EXPECT_FALSE(importBytes(bytes + group.substr(0, 4)));
  EXPECT_FALSE(importBytes(bytes + "\xc4\x3e"));
  std::string open;
  for (int i = 0; i < 100000; ++i)
    open += "\xc3\x3e";
  EXPECT_FALSE(importBytes(bytes + open));
}

TEST_F(HostileTest, EmptyModelHasNoGraph) {
  EXPECT_FALSE(importBytes(std::string("\x08\x08", 2)));
  EXPECT_TRUE(hasError("[LLMC1002]"));
}

TEST_F(HostileTest, LargeGraphsStayQuick) {
  pb::ModelProto model = makeModel();
  addInput(model, "v0", {2});
  constexpr int kNodes = 100000;
  for (int i = kNodes; i > 0; --i) // backwards, so that they must be sorted
    addNode(model, "Relu", {"v" + std::to_string(i - 1)}, {"v" + std::to_string(i)});
  addOutput(model, "v" + std::to_string(kNodes));
  std::string bytes = model.SerializeAsString();
  std::clock_t begin = std::clock(); // of this process, since the machine may be busy
  llvm::Expected<std::unique_ptr<OnnxModel>> read = OnnxReader::fromBytes(bytes);
  ASSERT_TRUE(!!read);
  WeightStore weights;
  EXPECT_TRUE(importOnnx(**read, weights, &context));
  EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC);
}

} // namespace
} // namespace llmc::test
