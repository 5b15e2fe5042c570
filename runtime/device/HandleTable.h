// SPDX-License-Identifier: Apache-2.0
//
// A driver's handles. Numbers are never reused, so a stale handle is always
// found out; whoever uses an object holds a reference, so that a handle freed
// too early by a caller frees nothing under a running program.
#ifndef LLMC_RUNTIME_DEVICE_HANDLE_TABLE_H
#define LLMC_RUNTIME_DEVICE_HANDLE_TABLE_H

#include "runtime/abi/DriverAbi.h"

#include <memory>
#include <mutex>
#include <unordered_map>
#include <variant>

namespace llmc {

template <typename... Kinds> class HandleTable {
public:
  template <typename T> llmc_handle add(std::shared_ptr<T> object) {
    std::lock_guard guard(lock);
    llmc_handle handle = ++last;
    objects.emplace(handle, std::move(object));
    return handle;
  }

  /// Null when the handle is unknown or names another kind of object.
  template <typename T> std::shared_ptr<T> find(llmc_handle handle) const {
    std::lock_guard guard(lock);
    auto it = objects.find(handle);
    if (it == objects.end())
      return nullptr;
    auto *object = std::get_if<std::shared_ptr<T>>(&it->second);
    return object ? *object : nullptr;
  }

  /// False when the handle is unknown.
  bool remove(llmc_handle handle) {
    std::lock_guard guard(lock);
    return objects.erase(handle) != 0;
  }

private:
  mutable std::mutex lock;
  llmc_handle last = 0;
  std::unordered_map<llmc_handle, std::variant<std::shared_ptr<Kinds>...>> objects;
};

} // namespace llmc

#endif // LLMC_RUNTIME_DEVICE_HANDLE_TABLE_H
