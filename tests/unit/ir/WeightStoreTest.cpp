// SPDX-License-Identifier: Apache-2.0
//
// Weights against plain loops over their whole arrays, read in pieces of every
// kind of alignment.
#include "compiler/ir/WeightStore.h"
#include "compiler/ir/WeightTransforms.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

using namespace llmc;

namespace {

template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

std::vector<uint32_t> randomWords(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> words(count);
  for (uint32_t &word : words)
    word = static_cast<uint32_t>(random());
  return words;
}

const Weight *take(llvm::Expected<const Weight *> weight) {
  if (weight)
    return *weight;
  ADD_FAILURE() << toString(weight.takeError());
  return nullptr;
}

std::string failureOf(llvm::Expected<const Weight *> weight) {
  if (!weight)
    return toString(weight.takeError());
  ADD_FAILURE() << "expected an error";
  return {};
}

/// All bytes, checked to be the same when read in pieces of `step`.
std::string readAll(const Weight &weight,
                    std::initializer_list<size_t> steps = {1, 3, 7, 64, 1000}) {
  std::string whole(weight.byteSize(), '\x55');
  weight.read(0, {whole.data(), whole.size()});
  for (size_t step : steps) {
    std::string pieces(whole.size(), '\xaa');
    for (size_t at = 0; at < pieces.size(); at += step)
      weight.read(at, {pieces.data() + at, std::min(step, pieces.size() - at)});
    EXPECT_EQ(pieces, whole) << "in steps of " << step;
  }
  return whole;
}

/// Hides a weight's view, so that transforms of transforms are tested too.
class Opaque : public WeightTransform {
public:
  std::string describe() const override { return "opaque"; }
  llvm::Expected<WeightType> inferType(llvm::ArrayRef<const WeightType *> s) const override {
    return *s[0];
  }
  void evaluate(llvm::ArrayRef<const Weight *> s, uint64_t offset,
                llvm::MutableArrayRef<char> out) const override {
    s[0]->read(offset, out);
  }
};

TEST(WeightStore, KeepsNamesUniqueAndBytesIntact) {
  WeightStore store;
  const Weight *a = take(store.addOwned("w", {ElementType::I32, {3}}, bytesOf<int>({1, 2, 3})));
  const Weight *b = take(store.addOwned("w", {ElementType::I32, {1}}, bytesOf<int>({4})));
  const Weight *c = take(store.addOwned("w#2", {ElementType::I32, {1}}, bytesOf<int>({5})));
  EXPECT_EQ(a->name(), "w");
  EXPECT_EQ(b->name(), "w#2");
  EXPECT_EQ(c->name(), "w#2#2");
  EXPECT_EQ(store.find("w#2"), b);
  EXPECT_EQ(store.find("x"), nullptr);
  EXPECT_EQ(readAll(*a), bytesOf<int>({1, 2, 3}));
  EXPECT_EQ(store.weights().size(), 3u);
}

TEST(WeightStore, RefusesTypesAndSizesThatDoNotFit) {
  WeightStore store;
  EXPECT_NE(failureOf(store.addOwned("a", {ElementType::F32, {2}}, "1234")).find("8 bytes"),
            std::string::npos);
  failureOf(store.addOwned("b", {ElementType::String, {1}}, "x"));
  failureOf(store.addOwned("c", {ElementType::F32, {-1}}, ""));
  failureOf(store.addOwned("d", {ElementType::F32, {int64_t(1) << 32, int64_t(1) << 32}}, ""));
  failureOf(store.addOwned("e", {ElementType::F64, {int64_t(1) << 61}}, ""));
  EXPECT_EQ(take(store.addOwned("f", {ElementType::F64, {int64_t(1) << 62, 4, 0}}, ""))->byteSize(),
            0u);
}

TEST(WeightStore, PacksSmallElements) {
  EXPECT_EQ(tensorBytes(ElementType::I4, {3}), 2u);
  EXPECT_EQ(tensorBytes(ElementType::U2, {5}), 2u);
  EXPECT_EQ(tensorBytes(ElementType::F6E2M3, {4}), 3u);
  EXPECT_EQ(tensorBytes(ElementType::F6E2M3, {5}), 4u);
  EXPECT_EQ(tensorBytes(ElementType::I4, {int64_t(1) << 62, 2}), std::nullopt);
}

TEST(WeightStore, MapsPartsOfOneFile) {
  llvm::SmallString<128> path;
  int fd;
  ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("llmc-weights", "bin", fd, path));
  std::string content = bytesOf(randomWords(100, 1));
  std::ofstream(path.str().str(), std::ios::binary) << content;
  auto file = llvm::cantFail(MappedFile::open(path.str().str()));
  WeightStore store;
  const Weight *a = take(store.addMapped("a", {ElementType::F32, {10}}, file, 3));
  const Weight *end = take(store.addMapped("end", {ElementType::F32, {0}}, file, 400));
  EXPECT_EQ(readAll(*a), content.substr(3, 40));
  EXPECT_EQ(readAll(*end), "");
  EXPECT_NE(failureOf(store.addMapped("b", {ElementType::F32, {10}}, file, 361)).find("has 400"),
            std::string::npos);
  failureOf(store.addMapped("c", {ElementType::U8, {1}}, file, UINT64_MAX));
  EXPECT_EQ(store.files().size(), 1u);
  EXPECT_EQ(store.files()[0], path.str());
  llvm::sys::fs::remove(path);
}

TEST(WeightStore, RefusesWhatIsNoRegularFile) {
  EXPECT_NE(toString(MappedFile::open("/").takeError()).find("a folder"), std::string::npos);
  EXPECT_NE(toString(MappedFile::open("/dev/null").takeError()).find("not a regular file"),
            std::string::npos);
  EXPECT_NE(toString(MappedFile::open("/nowhere/x").takeError()).find("No such file"),
            std::string::npos);
}

TEST(WeightStore, FindsEqualWeightsOnlyWhenAllBytesAreEqual) {
  WeightStore store;
  std::vector<uint32_t> words = randomWords(100000, 2);
  const Weight *a = take(store.addOwned("a", {ElementType::F32, {100, 1000}}, bytesOf(words)));
  const Weight *b = take(store.addOwned("b", {ElementType::F32, {100, 1000}}, bytesOf(words)));
  const Weight *shaped = take(store.addOwned("c", {ElementType::F32, {1000, 100}}, bytesOf(words)));
  const Weight *computed = take(store.addTransformed("d", std::make_unique<Opaque>(), {a}));
  words[12345] ^= 1; // between the samples
  const Weight *other = take(store.addOwned("e", {ElementType::F32, {100, 1000}}, bytesOf(words)));
  EXPECT_EQ(a->sampleHash(), other->sampleHash());
  EXPECT_NE(a->contentHash(), other->contentHash());
  EXPECT_EQ(store.findEqual(*a), a);
  EXPECT_EQ(store.findEqual(*b), a);
  EXPECT_EQ(store.findEqual(*shaped), shaped);
  EXPECT_EQ(store.findEqual(*computed), a);
  EXPECT_EQ(store.findEqual(*other), other);
}

TEST(WeightTransforms, TransposeEqualsALoop) {
  for (auto [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {37, 129}, {200, 7}, {0, 4}, {4, 0}})
    for (ElementType element :
         {ElementType::F32, ElementType::F16, ElementType::U8, ElementType::F64}) {
      size_t width = elementBits(element) / 8;
      auto count = static_cast<size_t>(rows * columns);
      std::string in = bytesOf(randomWords((count * width + 3) / 4, 3)).substr(0, count * width);
      std::string want(in.size(), 0);
      for (size_t r = 0; r < static_cast<size_t>(rows); ++r)
        for (size_t c = 0; c < static_cast<size_t>(columns); ++c)
          std::memcpy(&want[(c * rows + r) * width], &in[(r * columns + c) * width], width);
      WeightStore store;
      const Weight *source = take(store.addOwned("w", {element, {rows, columns}}, in));
      const Weight *hidden = take(store.addTransformed("h", std::make_unique<Opaque>(), {source}));
      EXPECT_EQ(readAll(*take(store.addTransformed("t", transpose2d(), {source}))), want);
      EXPECT_EQ(readAll(*take(store.addTransformed("t", transpose2d(), {hidden}))), want);
    }
}

TEST(WeightTransforms, ConversionToBf16RoundsAsApFloatDoes) {
  std::vector<uint32_t> words = randomWords(5000, 4);
  for (uint32_t special :
       {0x00000000u, 0x80000000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu, 0x00000001u, 0x3f808000u,
        0x3f818000u, 0x3f808001u, 0x7f800001u, 0xffc00001u, 0x7fffffffu})
    words.push_back(special);
  WeightStore store;
  auto count = static_cast<int64_t>(words.size());
  const Weight *source = take(store.addOwned("w", {ElementType::F32, {count}}, bytesOf(words)));
  const Weight *converted = take(store.addTransformed("b", convertToBf16(), {source}));
  EXPECT_EQ(converted->type(), (WeightType{ElementType::BF16, {count}}));
  std::string got = readAll(*converted);
  for (size_t i = 0; i < words.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, &got[i * 2], 2);
    llvm::APFloat want(llvm::bit_cast<float>(words[i]));
    bool lossy;
    want.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    if (want.isNaN())
      EXPECT_TRUE((bits & 0x7fff) > 0x7f80) << std::hex << words[i];
    else
      EXPECT_EQ(bits, want.bitcastToAPInt().getZExtValue()) << std::hex << words[i];
  }
}

TEST(WeightTransforms, SliceEqualsALoop) {
  std::vector<uint32_t> words = randomWords(5 * 6 * 7, 5);
  WeightStore store;
  const Weight *source = take(store.addOwned("w", {ElementType::F32, {5, 6, 7}}, bytesOf(words)));
  struct {
    std::vector<int64_t> offsets, sizes;
  } cases[] = {{{0, 0, 0}, {5, 6, 7}}, {{1, 2, 3}, {2, 3, 4}}, {{4, 0, 0}, {1, 6, 7}},
               {{1, 5, 6}, {3, 1, 1}}, {{5, 0, 0}, {0, 6, 7}}, {{0, 2, 0}, {5, 2, 7}}};
  for (const auto &c : cases) {
    std::vector<uint32_t> want;
    for (int64_t i = 0; i < c.sizes[0]; ++i)
      for (int64_t j = 0; j < c.sizes[1]; ++j)
        for (int64_t k = 0; k < c.sizes[2]; ++k)
          want.push_back(words[((i + c.offsets[0]) * 6 + j + c.offsets[1]) * 7 + k + c.offsets[2]]);
    EXPECT_EQ(readAll(*take(store.addTransformed("s", slice(c.offsets, c.sizes), {source}))),
              bytesOf(want));
  }
  failureOf(store.addTransformed("s", slice({0, 0, 6}, {5, 6, 2}), {source}));
  failureOf(store.addTransformed("s", slice({0, 0}, {5, 6}), {source}));
  failureOf(store.addTransformed("s", slice({-1, 0, 0}, {5, 6, 7}), {source}));
}

TEST(WeightTransforms, ChainsAreLazy) {
  std::vector<float> values(6 * 4);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i);
  WeightStore store;
  const Weight *source = take(store.addOwned("w", {ElementType::F32, {6, 4}}, bytesOf(values)));
  const Weight *part = take(store.addTransformed("p", slice({2, 1}, {3, 2}), {source}));
  const Weight *turned = take(store.addTransformed("t", transpose2d(), {part}));
  const Weight *small = take(store.addTransformed("b", convertToBf16(), {turned}));
  std::vector<uint16_t> want;
  for (float value : {9.f, 13.f, 17.f, 10.f, 14.f, 18.f})
    want.push_back(static_cast<uint16_t>(llvm::bit_cast<uint32_t>(value) >> 16));
  EXPECT_EQ(readAll(*small), bytesOf(want));
  EXPECT_TRUE(small->view().empty());
}

} // namespace
