// SPDX-License-Identifier: Apache-2.0
//
// Holds PCRE2 objects; the match data and the JIT stack live for one findAll,
// which makes the shared pattern safe to use from several threads.
#include "runtime/llm/Regex.h"

#include "runtime/llm/UnicodeText.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace llmc {

namespace {

// A legitimate match backtracks at most about once per byte of its piece; pieces longer than this
// are refused by the limit rather than searched for minutes.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackMax = 4 * 1024 * 1024;

template <auto Free> struct Release {
  template <typename T> void operator()(T *object) const { Free(object); }
};
template <typename T, auto Free> using Owned = std::unique_ptr<T, Release<Free>>;

std::string describe(int code) {
  PCRE2_UCHAR text[128];
  if (pcre2_get_error_message(code, text, sizeof(text)) < 0)
    return fmt::format("PCRE2 error {}", code);
  return reinterpret_cast<const char *>(text);
}

} // namespace

struct Regex::Compiled {
  Owned<pcre2_code, pcre2_code_free> code;
  bool hasJit = false;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  Owned<pcre2_compile_context, pcre2_compile_context_free> context(
      pcre2_compile_context_create(nullptr));
  if (!context)
    return Status::error(Code::Unavailable, "no memory for a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &where, context.get()));
  if (!compiled->code)
    return Status::error(Code::InvalidArgument,
                         "the regular expression '{}' is wrong at byte {}: {}", pattern, where,
                         describe(error));
  // Machines without JIT support, or that forbid writable code, interpret the pattern.
  compiled->hasJit = pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE) == 0;
  Regex regex;
  regex.compiled = std::move(compiled);
  return regex;
}

Status Regex::findAll(std::string_view text, std::vector<MatchRange> &matches) const {
  matches.clear();
  const pcre2_code *code = compiled->code.get();
  Owned<pcre2_match_data, pcre2_match_data_free> data(
      pcre2_match_data_create_from_pattern(code, nullptr));
  Owned<pcre2_match_context, pcre2_match_context_free> context(pcre2_match_context_create(nullptr));
  Owned<pcre2_jit_stack, pcre2_jit_stack_free> jitStack;
  if (!data || !context)
    return Status::error(Code::Unavailable, "no memory for a regular expression");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);

  auto *subject = reinterpret_cast<PCRE2_SPTR>(text.data() ? text.data() : "");
  uint32_t options = PCRE2_NO_UTF_CHECK;
  size_t from = 0;
  size_t lastEnd = std::string_view::npos;
  while (from <= text.size()) {
    int rc = pcre2_match(code, subject, text.size(), from, options, data.get(), context.get());
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      // First a larger stack, then the interpreter, whose stack is the heap.
      if (jitStack)
        options |= PCRE2_NO_JIT;
      jitStack.reset(pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, jitStack.get());
      if (!jitStack)
        options |= PCRE2_NO_JIT;
      continue;
    }
    if (rc == PCRE2_ERROR_NOMATCH)
      break;
    if (rc < 0)
      return Status::error(Code::ResourceExhausted,
                           "splitting {} bytes of text failed at byte {}: {}", text.size(), from,
                           describe(rc));
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data.get());
    // \K in a lookahead can give an end before the start or a match before `from`.
    if (range[0] > range[1] || range[0] < from || range[1] > text.size())
      return Status::error(Code::InvalidArgument, "a regular expression moved its match by \\K");
    if (range[0] == range[1] && range[0] == lastEnd) {
      if (from == text.size())
        break;
      from += utf8Size(text[from]);
      continue;
    }
    matches.push_back({range[0], range[1]});
    from = lastEnd = range[1];
  }
  return Status::ok();
}

} // namespace llmc
