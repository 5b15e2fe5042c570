// SPDX-License-Identifier: Apache-2.0
//
// mremap puts a piece in place: it replaces the pages there and keeps the huge
// ones whole, since both ends are multiples of 2 MB. Threads that touch the
// range meanwhile wait in the kernel.
#include "runtime/exec/HugePageMover.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace llmc {

namespace {

constexpr size_t kHugePage = size_t(2) << 20;

/// The start of a small file; empty when it can't be read.
std::string_view readFile(const char *path, std::span<char> buffer) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return {};
  ssize_t size = read(file, buffer.data(), buffer.size());
  close(file);
  return {buffer.data(), size > 0 ? static_cast<size_t>(size) : 0};
}

/// The number that begins `text`, after spaces.
uint64_t numberIn(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool systemGivesHugePages() {
  char buffer[128];
  std::string_view modes = readFile("/sys/kernel/mm/transparent_hugepage/enabled", buffer);
  return modes.find("[always]") != std::string_view::npos ||
         modes.find("[madvise]") != std::string_view::npos;
}

/// Bytes that this process could still take: of the machine's memory and of its control group's.
uint64_t availableBytes() {
  char buffer[4096];
  std::string_view text = readFile("/proc/meminfo", buffer);
  constexpr std::string_view kName = "MemAvailable:";
  size_t at = text.find(kName);
  uint64_t available =
      at == std::string_view::npos ? 0 : numberIn(text.substr(at + kName.size())) * 1024;
  text = readFile("/sys/fs/cgroup/memory.max", buffer);
  if (uint64_t limit = numberIn(text); limit != 0) // "max" gives 0
    available = std::min(available, limit);
  return available;
}

} // namespace

HugePageMover::~HugePageMover() {
  stop.store(true, std::memory_order_relaxed);
  wait();
}

void HugePageMover::start() {
  if (started.load(std::memory_order_relaxed) || started.exchange(true))
    return;
  std::lock_guard guard(lock);
  try {
    thread = std::thread([this] { work(); });
  } catch (const std::system_error &) {
    // The bytes can be read where they are.
  }
}

void HugePageMover::wait() {
  std::lock_guard guard(lock);
  if (thread.joinable())
    thread.join();
}

void HugePageMover::work() {
  // A quarter of what is there is left to others.
  if (!systemGivesHugePages() || memory.size() > availableBytes() / 4 * 3)
    return;
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  uintptr_t end = (address + memory.size()) / kHugePage * kHugePage;
  while (begin < end && !stop.load(std::memory_order_relaxed)) {
    size_t bytes = std::min<uintptr_t>(kPieceBytes, end - begin);
    if (!movePiece(reinterpret_cast<std::byte *>(begin), bytes))
      return;
    begin += bytes;
    moved.fetch_add(bytes, std::memory_order_relaxed);
  }
}

bool HugePageMover::movePiece(std::byte *target, size_t bytes) {
  size_t reserved = bytes + kHugePage;
  void *mapping =
      mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return false;
  auto *start = static_cast<std::byte *>(mapping);
  size_t skip = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  std::byte *copy = start + skip;
  madvise(copy, bytes, MADV_HUGEPAGE); // advice: a refusal changes nothing
  std::memcpy(copy, target, bytes);
  bool placed = mprotect(copy, bytes, PROT_READ) == 0 &&
                mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target;
  if (!placed) {
    munmap(start, reserved);
    return false;
  }
  if (skip != 0)
    munmap(start, skip);
  if (skip != kHugePage)
    munmap(copy + bytes, kHugePage - skip);
  return true;
}

} // namespace llmc
