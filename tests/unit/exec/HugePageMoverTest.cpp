// SPDX-License-Identifier: Apache-2.0
//
// Bytes stay the same, at the same addresses, while threads read them.
#include "runtime/exec/HugePageMover.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace llmc {
namespace {

constexpr size_t kHuge = size_t(2) << 20;

/// A file of `size` bytes, mapped privately `shift` bytes behind a multiple of 2 MB.
class Mapping {
public:
  Mapping(size_t size, size_t shift) : size(size), reserved(size + shift + 2 * kHuge) {
    char path[] = "/tmp/llmc-mover-XXXXXX";
    int file = mkstemp(path);
    EXPECT_GE(file, 0);
    unlink(path);
    std::vector<uint32_t> words(size / 4);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = word(i);
    EXPECT_EQ(write(file, words.data(), size), ssize_t(size));
    area = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uintptr_t start = (reinterpret_cast<uintptr_t>(area) + kHuge - 1) / kHuge * kHuge + shift;
    data = static_cast<std::byte *>(
        mmap(reinterpret_cast<void *>(start), size, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data), start);
    close(file);
  }
  ~Mapping() { munmap(area, reserved); }
  std::span<const std::byte> bytes() const { return {data, size}; }
  bool isWhole() const {
    for (size_t i = 0; i < size / 4; ++i) {
      uint32_t x;
      std::memcpy(&x, data + i * 4, 4);
      if (x != word(i))
        return false;
    }
    return true;
  }

private:
  static uint32_t word(size_t i) { return uint32_t(i) * 2654435761u; }
  size_t size, reserved;
  void *area;
  std::byte *data;
};

bool hasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string modes{std::istreambuf_iterator<char>(file), {}};
  return modes.find("[always]") != std::string::npos ||
         modes.find("[madvise]") != std::string::npos;
}

TEST(HugePageMover, MovesWholePagesWhileOthersRead) {
  if (!hasHugePages())
    GTEST_SKIP() << "this system gives no transparent huge pages";
  // Two pieces and a half, and rests at both ends.
  Mapping mapping(2 * HugePageMover::kPieceBytes + 5 * kHuge + 12288, 4096);
  HugePageMover mover(mapping.bytes());
  std::atomic<bool> done{false};
  std::atomic<int> bad{0};
  std::thread reader([&] {
    while (!done.load())
      bad += !mapping.isWhole();
  });
  mover.start();
  mover.start();
  mover.wait();
  done = true;
  reader.join();
  EXPECT_EQ(bad.load(), 0);
  EXPECT_TRUE(mapping.isWhole());
  EXPECT_EQ(mover.movedBytes(), 2 * HugePageMover::kPieceBytes + 4 * kHuge);
}

TEST(HugePageMover, LeavesSmallRangesAlone) {
  Mapping mapping(kHuge + 8192, 8192);
  HugePageMover mover(mapping.bytes().first(kHuge));
  mover.start();
  mover.wait();
  EXPECT_EQ(mover.movedBytes(), 0u);
  EXPECT_TRUE(mapping.isWhole());
}

TEST(HugePageMover, StopsWhenDestroyed) {
  Mapping mapping(6 * HugePageMover::kPieceBytes, 0);
  {
    HugePageMover mover(mapping.bytes());
    mover.start();
  }
  EXPECT_TRUE(mapping.isWhole());
}

} // namespace
} // namespace llmc
