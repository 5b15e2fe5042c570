// SPDX-License-Identifier: Apache-2.0
//
// How the runtime reports failure. A Status is ok or holds a code and one
// sentence for a person; nothing in the runtime prints, exits or throws across
// a function boundary. Codes become C codes in one place, capi/CApi.cpp.
#ifndef LLMC_RUNTIME_CORE_STATUS_H
#define LLMC_RUNTIME_CORE_STATUS_H

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace llmc {

/// Values equal `llmc_status` in llmc/llmc.h and are never reused.
enum class Code : int {
  Ok = 0,
  /// The caller asked for something that makes no sense: a wrong shape, dtype, name or option.
  InvalidArgument = 1,
  /// A bundle, tokenizer or tensor file is damaged: a field contradicts the bytes around it.
  Corrupt = 2,
  /// A bundle is whole but of another format version, or needs a feature this runtime lacks.
  Incompatible = 3,
  /// A file, entry or tensor of that name does not exist.
  NotFound = 4,
  /// The machine lacks something: an instruction set, a driver, memory, disk space, permission.
  Unavailable = 5,
  /// A limit was reached: context capacity, match limit, maximum size.
  ResourceExhausted = 6,
  /// The caller's callback or another thread asked to stop.
  Cancelled = 7,
  /// The runtime itself is wrong. Always a bug.
  Internal = 8,
};

class [[nodiscard]] Status {
public:
  static Status ok() { return {}; }

  template <typename... Args>
  static Status error(Code code, fmt::format_string<Args...> text, Args &&...args) {
    return Status(code, fmt::format(text, std::forward<Args>(args)...));
  }

  bool isOk() const { return !detail; }
  Code code() const { return detail ? detail->code : Code::Ok; }
  /// Empty when ok.
  const std::string &message() const;
  /// The same failure, said in the context of what was being done: "context: message".
  Status inContext(const std::string &context) const;

private:
  struct Detail {
    Code code;
    std::string message;
  };
  Status() = default;
  Status(Code code, std::string message)
      : detail(std::make_shared<Detail>(Detail{code, std::move(message)})) {}
  std::shared_ptr<const Detail> detail;
};

/// A value or the Status that says why there is none.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : content(std::move(value)), failure(Status::ok()) {}
  Result(Status status) : failure(std::move(status)) {}

  bool isOk() const { return content.has_value(); }
  const Status &status() const { return failure; }
  T &operator*() { return *content; }
  const T &operator*() const { return *content; }
  T *operator->() { return &*content; }
  const T *operator->() const { return &*content; }

private:
  std::optional<T> content;
  Status failure;
};

} // namespace llmc

/// Returns from the enclosing function when `expr` (a Status) is a failure.
#define LLMC_TRY(expr)                                                                             \
  do {                                                                                             \
    if (::llmc::Status llmcTryStatus = (expr); !llmcTryStatus.isOk())                              \
      return llmcTryStatus;                                                                        \
  } while (false)

#define LLMC_CONCAT_INNER(a, b) a##b
#define LLMC_CONCAT(a, b) LLMC_CONCAT_INNER(a, b)
/// `LLMC_TRY_ASSIGN(auto x, f())`: returns when f()'s Result is a failure, else moves its value.
#define LLMC_TRY_ASSIGN(lhs, expr)                                                                 \
  auto LLMC_CONCAT(llmcResult, __LINE__) = (expr);                                                 \
  if (!LLMC_CONCAT(llmcResult, __LINE__).isOk())                                                   \
    return LLMC_CONCAT(llmcResult, __LINE__).status();                                             \
  lhs = std::move(*LLMC_CONCAT(llmcResult, __LINE__))

#endif // LLMC_RUNTIME_CORE_STATUS_H
