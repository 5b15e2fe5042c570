// SPDX-License-Identifier: Apache-2.0
//
// Tensor files against bytes put together by hand, whole and damaged. The same
// readers meet NumPy's own files in tests/cli.
#include "tools/cli/NpyFile.h"
#include "tools/cli/NpzFile.h"
#include "tools/cli/ReadFile.h"
#include "tools/cli/TensorProto.h"
#include "tools/cli/TensorSet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

namespace {

using namespace llmc;
using namespace llmc::cli;

Bytes toBytes(std::string_view text) {
  Bytes bytes(text.size());
  if (!text.empty()) // memcpy takes no null
    std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

template <typename T> OwnedTensor makeTensor(Dtype dtype, Shape dims, std::vector<T> values) {
  OwnedTensor tensor;
  tensor.name = "x";
  tensor.dtype = dtype;
  tensor.dims = std::move(dims);
  tensor.data.resize(values.size() * sizeof(T));
  if (!values.empty())
    std::memcpy(tensor.data.data(), values.data(), tensor.data.size());
  return tensor;
}

template <typename T> std::vector<T> valuesOf(const OwnedTensor &tensor) {
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty())
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

std::string npy(std::string dictionary, std::string body) {
  dictionary += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += char(dictionary.size() & 255);
  file += char(dictionary.size() >> 8);
  return file + dictionary + body;
}

class TemporaryFolder : public testing::Test {
protected:
  void SetUp() override {
    const auto *info = testing::UnitTest::GetInstance()->current_test_info();
    folder = std::filesystem::path(testing::TempDir()) /
             ("llmc-" + std::string(info->name()) + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::string path(const std::string &name) const { return folder / name; }
  void write(const std::string &name, const std::string &content) {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::filesystem::path folder;
};

TEST(NpyFile, WritesWhatItReads) {
  OwnedTensor tensor = makeTensor<float>(Dtype::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  std::string file = npyHeader(tensor);
  EXPECT_EQ(file.size() % 64, 0u);
  file.append(reinterpret_cast<const char *>(tensor.data.data()), tensor.data.size());
  auto read = parseNpy(toBytes(file));
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->dtype, Dtype::F32);
  EXPECT_EQ(read->dims, (Shape{2, 3}));
  EXPECT_EQ(read->data, tensor.data);
}

TEST(NpyFile, BringsColumnMajorArraysIntoRowOrder) {
  // numpy.asfortranarray([[1, 2, 3], [4, 5, 6]])
  auto read = parseNpy(toBytes(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
                                   std::string("\x01\x04\x02\x05\x03\x06", 6))));
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(valuesOf<uint8_t>(*read), (std::vector<uint8_t>{1, 2, 3, 4, 5, 6}));
}

TEST(NpyFile, SwapsBigEndianElements) {
  auto read = parseNpy(toBytes(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }",
                                   std::string("\x01\x02\xff\xfe", 4))));
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(valuesOf<int16_t>(*read), (std::vector<int16_t>{0x0102, -2}));
}

TEST(NpyFile, TakesVoidPairsForBfloat16) {
  auto read = parseNpy(toBytes(
      npy("{'descr': '<V2', 'fortran_order': False, 'shape': (), }", std::string("\xc0\x3f", 2))));
  ASSERT_TRUE(read.isOk()) << read.status().message();
  EXPECT_EQ(read->dtype, Dtype::BF16);
  EXPECT_EQ(elementAsDouble(read->dtype, read->data.data(), 0), 1.5);
}

TEST(NpyFile, RefusesWhatItCannotHold) {
  const std::string body(8, '\0');
  const std::pair<const char *, const char *> kCases[] = {
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8' are not supported"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "'|O' are not supported"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "structured"},
      {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "fortran_order"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "needs 12"},
      {"{'descr': '<f4', 'fortran_order': False, }", "missing"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "63 bits"},
      {"", "'{'"},
  };
  for (const auto &[header, expected] : kCases) {
    auto read = parseNpy(toBytes(npy(header, body)));
    ASSERT_FALSE(read.isOk()) << header;
    EXPECT_NE(read.status().message().find(expected), std::string::npos)
        << header << " -> " << read.status().message();
  }
}

TEST_F(TemporaryFolder, NpzKeepsTypesShapesAndNames) {
  std::vector<OwnedTensor> tensors;
  tensors.push_back(makeTensor<float>(Dtype::F32, {2, 2}, {1, -2, 3, 4}));
  tensors.push_back(makeTensor<int64_t>(Dtype::I64, {}, {7}));
  tensors.push_back(makeTensor<uint16_t>(Dtype::BF16, {1}, {0x3fc0}));
  tensors.push_back(makeTensor<uint8_t>(Dtype::Bool, {0, 3}, {}));
  tensors[1].name = "logits/scale:0";
  tensors[2].name = "half";
  tensors[3].name = "none";
  ASSERT_TRUE(writeTensorSet(path("a.npz"), tensors).isOk());
  const TensorSpec specs[] = {{"x", Dtype::F32},
                              {"logits/scale:0", Dtype::I64},
                              {"absent", Dtype::F32},
                              {"half", Dtype::BF16},
                              {"none", Dtype::Bool}};
  auto set = readTensorSet(path("a.npz"), specs, Side::Outputs);
  ASSERT_TRUE(set.isOk()) << set.status().message();
  ASSERT_EQ(set->tensors.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(set->tensors[i].name, tensors[i].name);
    EXPECT_EQ(set->tensors[i].dtype, tensors[i].dtype);
    EXPECT_EQ(set->tensors[i].dims, tensors[i].dims);
    EXPECT_EQ(set->tensors[i].data, tensors[i].data);
  }
}

TEST_F(TemporaryFolder, NpzPrefixesWinOverPlainNames) {
  std::vector<OwnedTensor> tensors;
  tensors.push_back(makeTensor<float>(Dtype::F32, {1}, {1}));
  tensors.push_back(makeTensor<float>(Dtype::F32, {1}, {2}));
  tensors.push_back(makeTensor<float>(Dtype::F32, {1}, {3}));
  tensors.push_back(makeTensor<uint8_t>(Dtype::Bool, {1}, {0}));
  tensors[1].name = "in:x";
  tensors[2].name = "out:x";
  tensors[3].name = "mask:x";
  ASSERT_TRUE(writeTensorSet(path("a.npz"), tensors).isOk());
  const TensorSpec specs[] = {{"x", Dtype::F32}};
  auto inputs = readTensorSet(path("a.npz"), specs, Side::Inputs);
  ASSERT_TRUE(inputs.isOk());
  EXPECT_EQ(valuesOf<float>(inputs->tensors[0]), std::vector<float>{2});
  EXPECT_FALSE(inputs->masks[0]);
  auto outputs = readTensorSet(path("a.npz"), specs, Side::Outputs);
  ASSERT_TRUE(outputs.isOk());
  EXPECT_EQ(valuesOf<float>(outputs->tensors[0]), std::vector<float>{3});
  EXPECT_TRUE(outputs->masks[0]);
}

TEST_F(TemporaryFolder, EveryCutOfAnNpzIsRefused) {
  std::vector<OwnedTensor> tensors;
  tensors.push_back(makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(writeTensorSet(path("a.npz"), tensors).isOk());
  auto whole = readFile(path("a.npz"));
  ASSERT_TRUE(whole.isOk());
  for (size_t size = 0; size < whole->size(); ++size)
    EXPECT_FALSE(NpzReader::open(Bytes(whole->begin(), whole->begin() + size)).isOk()) << size;
}

TEST_F(TemporaryFolder, NoFlippedByteOfAnNpzGoesUnnoticedInTheData) {
  std::vector<OwnedTensor> tensors;
  tensors.push_back(makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 3, 4}));
  ASSERT_TRUE(writeTensorSet(path("a.npz"), tensors).isOk());
  auto whole = readFile(path("a.npz"));
  ASSERT_TRUE(whole.isOk());
  for (size_t at = 0; at < whole->size(); ++at) {
    Bytes damaged = *whole;
    damaged[at] ^= std::byte(0x41);
    auto reader = NpzReader::open(std::move(damaged));
    if (!reader.isOk() || !reader->has("x"))
      continue;
    auto tensor = reader->read("x");
    if (tensor.isOk()) // a field that doesn't matter, such as the date
      EXPECT_EQ(tensor->data, tensors[0].data) << at;
  }
}

TEST_F(TemporaryFolder, AFailedWriteLeavesTheOldFile) {
  write("a.npz", "old");
  {
    auto writer = NpzWriter::create(path("a.npz"));
    ASSERT_TRUE(writer.isOk());
    ASSERT_TRUE(writer->add(makeTensor<float>(Dtype::F32, {1}, {1})).isOk());
  }
  auto content = readFile(path("a.npz"));
  ASSERT_TRUE(content.isOk());
  EXPECT_EQ(*content, toBytes("old"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
}

/// A TensorProto's bytes: dims, data_type, name, and one more field.
std::string proto(std::initializer_list<char> dims, char dtype, std::string rest,
                  std::string name = "x") {
  std::string bytes;
  for (char dim : dims)
    bytes += {'\x08', dim};
  bytes += {'\x10', dtype, '\x42', char(name.size())};
  return bytes + name + rest;
}

TEST(TensorProto, ReadsRawAndTypedData) {
  auto raw = parseTensorProto(
      toBytes(proto({2}, 6, std::string("\x4a\x08\x01\x00\x00\x00\xff\xff\xff\xff", 10))));
  ASSERT_TRUE(raw.isOk()) << raw.status().message();
  EXPECT_EQ(valuesOf<int32_t>(*raw), (std::vector<int32_t>{1, -1}));
  EXPECT_EQ(raw->name, "x");

  auto packed = parseTensorProto(toBytes(proto({2}, 3, std::string("\x2a\x02\x05\x07", 4))));
  ASSERT_TRUE(packed.isOk()) << packed.status().message();
  EXPECT_EQ(valuesOf<int8_t>(*packed), (std::vector<int8_t>{5, 7}));

  auto unpacked = parseTensorProto(
      toBytes(proto({2}, 7, "\x38\x05\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")));
  ASSERT_TRUE(unpacked.isOk()) << unpacked.status().message();
  EXPECT_EQ(valuesOf<int64_t>(*unpacked), (std::vector<int64_t>{5, -1}));

  auto half = parseTensorProto(toBytes(proto({1}, 10, std::string("\x2a\x02\x80\x78", 4))));
  ASSERT_TRUE(half.isOk()) << half.status().message();
  EXPECT_EQ(elementAsDouble(half->dtype, half->data.data(), 0), 1.0);
}

TEST(TensorProto, GivesNarrowElementsAByteEach) {
  auto fourBits = parseTensorProto(toBytes(proto({3}, 22, std::string("\x4a\x02\x21\x0f", 4))));
  ASSERT_TRUE(fourBits.isOk()) << fourBits.status().message();
  EXPECT_EQ(valuesOf<int8_t>(*fourBits), (std::vector<int8_t>{1, 2, -1}));

  auto twoBits = parseTensorProto(toBytes(proto({5}, 25, std::string("\x4a\x02\xe4\x02", 4))));
  ASSERT_TRUE(twoBits.isOk()) << twoBits.status().message();
  EXPECT_EQ(valuesOf<uint8_t>(*twoBits), (std::vector<uint8_t>{0, 1, 2, 3, 2}));

  auto floats = parseTensorProto(toBytes(proto({2}, 17, std::string("\x4a\x02\x38\xfe", 4))));
  ASSERT_TRUE(floats.isOk()) << floats.status().message();
  EXPECT_EQ(valuesOf<uint8_t>(*floats), (std::vector<uint8_t>{0x38, 0xfe}));
}

TEST(TensorProto, RefusesDamageAndForeignTypes) {
  const std::pair<std::string, const char *> kCases[] = {
      {proto({2}, 6, std::string("\x4a\x04\x01\x00\x00\x00", 6)), "needs 8"},
      {proto({2}, 6, std::string("\x4a\x7f\x01", 3)), "cut off"},
      {proto({1}, 8, ""), "element type 8"},
      {proto({3}, 22, std::string("\x4a\x01\x21", 3)), "needs 3"},
      {proto({1}, 27, ""), "element type 27"},
      {proto({1}, 1, std::string("\x70\x01", 2)), "outside of itself"},
      {std::string("\x0b", 1), "not a TensorProto"},
      {std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01", 13), "negative"},
      {std::string("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12), "10 bytes"},
      {"", "element type 0"},
  };
  for (const auto &[bytes, expected] : kCases) {
    auto read = parseTensorProto(toBytes(bytes));
    ASSERT_FALSE(read.isOk()) << expected;
    EXPECT_NE(read.status().message().find(expected), std::string::npos) << read.status().message();
  }
}

TEST_F(TemporaryFolder, ProtoFilesGoByNameThenByPosition) {
  // The first file has a name of the model, the second one of its own.
  write("input_0.pb", proto({1}, 3, std::string("\x2a\x01\x05", 3), "b"));
  write("input_1.pb", proto({1}, 3, std::string("\x2a\x01\x06", 3), "b2"));
  const TensorSpec specs[] = {{"b", Dtype::I8}, {"c", Dtype::I8}};
  auto set = readTensorSet(folder, specs, Side::Inputs);
  ASSERT_TRUE(set.isOk()) << set.status().message();
  ASSERT_EQ(set->tensors.size(), 2u);
  EXPECT_EQ(set->tensors[0].name, "b");
  EXPECT_EQ(set->tensors[1].name, "c");
  EXPECT_EQ(valuesOf<int8_t>(set->tensors[1]), std::vector<int8_t>{6});
  EXPECT_FALSE(readTensorSet(folder, std::span(specs, 1), Side::Inputs).isOk());
}

TEST_F(TemporaryFolder, NpyFoldersUseNamesWithoutSlashes) {
  std::vector<OwnedTensor> tensors;
  tensors.push_back(makeTensor<int32_t>(Dtype::I32, {1}, {4}));
  tensors[0].name = "/model/out";
  ASSERT_TRUE(writeTensorSet(path("out"), tensors).isOk());
  const TensorSpec specs[] = {{"/model/out", Dtype::I32}};
  auto set = readTensorSet(path("out"), specs, Side::Outputs);
  ASSERT_TRUE(set.isOk()) << set.status().message();
  ASSERT_EQ(set->tensors.size(), 1u);
  EXPECT_EQ(valuesOf<int32_t>(set->tensors[0]), std::vector<int32_t>{4});
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool equalFloats(std::vector<float> got, std::vector<float> want, Tolerance tolerance) {
  auto count = int64_t(got.size());
  return compareTensors(makeTensor(Dtype::F32, {count}, got), makeTensor(Dtype::F32, {count}, want),
                        nullptr, tolerance)
      .equal;
}

TEST(CompareTensors, IsElementwise) {
  EXPECT_TRUE(equalFloats({1.0f, 100.0f}, {1.0f, 100.5f}, {0.01, 0}));
  // The large element next to it doesn't excuse the small one.
  EXPECT_FALSE(equalFloats({1.5f, 100.0f}, {1.0f, 100.0f}, {0.01, 0}));
  EXPECT_TRUE(equalFloats({}, {}, {0, 0}));
}

TEST(CompareTensors, TreatsNanAndInfinityAsValues) {
  EXPECT_TRUE(equalFloats({kNan, kInf, -kInf}, {kNan, kInf, -kInf}, {0, 0}));
  EXPECT_FALSE(equalFloats({kNan}, {1}, {1e9, 1e9}));
  EXPECT_FALSE(equalFloats({1}, {kNan}, {1e9, 1e9}));
  EXPECT_FALSE(equalFloats({kInf}, {-kInf}, {1e9, 1e9}));
  EXPECT_FALSE(equalFloats({3e38f}, {kInf}, {1e9, 1e9}));
}

TEST(CompareTensors, IntegersAreExactUnlessTheBoundIsWhole) {
  OwnedTensor a = makeTensor<int32_t>(Dtype::I32, {2}, {1000, 5});
  OwnedTensor b = makeTensor<int32_t>(Dtype::I32, {2}, {1001, 5});
  EXPECT_FALSE(compareTensors(a, b, nullptr, {0.1, 0.5}).equal);
  EXPECT_TRUE(compareTensors(a, b, nullptr, {0, 1}).equal);
}

TEST(CompareTensors, NamesTheWorstElement) {
  OwnedTensor got = makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 3, 9});
  OwnedTensor want = makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 4, 4});
  Comparison result = compareTensors(got, want, nullptr, {0, 0});
  EXPECT_FALSE(result.equal);
  EXPECT_EQ(result.maxAbsError, 5);
  EXPECT_EQ(result.maxRelError, 1.25);
  EXPECT_NE(result.text.find("2 of 4"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("(1, 1)"), std::string::npos) << result.text;
}

TEST(CompareTensors, MaskBroadcastsAndFalseMeansIgnored) {
  OwnedTensor got = makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 7, 8});
  OwnedTensor want = makeTensor<float>(Dtype::F32, {2, 2}, {1, 2, 3, 4});
  OwnedTensor rows = makeTensor<uint8_t>(Dtype::Bool, {2, 1}, {1, 0});
  EXPECT_TRUE(compareTensors(got, want, &rows, {0, 0}).equal);
  OwnedTensor columns = makeTensor<uint8_t>(Dtype::Bool, {2}, {1, 0});
  EXPECT_FALSE(compareTensors(got, want, &columns, {0, 0}).equal);
  OwnedTensor wrong = makeTensor<uint8_t>(Dtype::Bool, {3}, {0, 0, 0});
  EXPECT_FALSE(compareTensors(got, want, &wrong, {0, 0}).equal);
}

TEST(CompareTensors, ShapesAndKindsMustAgreeButWidthsNeedNot) {
  OwnedTensor wide = makeTensor<double>(Dtype::F64, {1}, {1.5});
  OwnedTensor half = makeTensor<uint16_t>(Dtype::BF16, {1}, {0x3fc0});
  OwnedTensor other = makeTensor<double>(Dtype::F64, {1, 1}, {1.5});
  OwnedTensor integer = makeTensor<int64_t>(Dtype::I64, {1}, {1});
  EXPECT_TRUE(compareTensors(half, wide, nullptr, {0, 0}).equal);
  EXPECT_FALSE(compareTensors(wide, other, nullptr, {9, 9}).equal);
  EXPECT_FALSE(compareTensors(wide, integer, nullptr, {9, 9}).equal);
}

} // namespace
