// SPDX-License-Identifier: Apache-2.0
//
// One pass over the pattern. The two dialects differ in the sets that \s, \w
// and \h stand for, in script properties, in what `+` means after {n,m}, and in
// nested sets; what differs in other ways is refused.
#include "compiler/bundle/RegexTranslation.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>
#include <vector>

namespace llmc {

namespace {

// White_Space; PCRE2's \s also has U+180E.
constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Alphabetic, marks, decimal numbers and connectors; PCRE2's \w is letters, numbers and '_'.
constexpr std::string_view kWords =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

class Translator {
public:
  explicit Translator(std::string_view pattern) : in(pattern) {}

  RegexTranslation run() {
    while (at < in.size() && problem.empty())
      translateItem();
    if (!problem.empty())
      return {"", problem};
    return {out, ""};
  }

private:
  bool refuse(std::string_view what) {
    problem = std::string(what) + " at byte " + std::to_string(at);
    return false;
  }

  void translateItem() {
    char c = in[at];
    if (c == '{' || c == '*' || c == '+' || c == '?')
      return translateQuantifier();
    if (c == '(') {
      groups.push_back(out.size());
      return translateGroupStart();
    }
    if (c == ')') {
      if (groups.empty()) {
        refuse("an unmatched ')'");
        return;
      }
      atom = groups.back();
      groups.pop_back();
      out += in[at++];
      return;
    }
    atom = out.size();
    if (c == '[')
      return translateSet();
    if (c == '\\')
      return translateEscape(/*inSet=*/false);
    out += in[at++];
  }

  void translateGroupStart() {
    std::string_view rest = in.substr(at);
    for (std::string_view start : {"(?<=", "(?<!", "(?:", "(?=", "(?!", "(?>"})
      if (rest.starts_with(start))
        return copy(start.size());
    if (!rest.starts_with("(?") && !rest.starts_with("(*"))
      return copy(1);
    // Of the option groups "(?i:" and "(?-i)" only 'i' means the same in both.
    size_t end = rest.find_first_not_of("i-", 2);
    if (rest[1] == '?' && end != std::string_view::npos && end > 2 &&
        (rest[end] == ':' || rest[end] == ')'))
      return copy(rest[end] == ':' ? end + 1 : end);
    refuse("a group of a kind that the two dialects read differently");
  }

  void copy(size_t size) {
    out += in.substr(at, size);
    at += size;
  }

  void translateQuantifier() {
    bool isInterval = false;
    if (in[at] == '{') {
      size_t end = at + 1;
      while (end < in.size() && (std::isdigit(in[end]) || in[end] == ','))
        ++end;
      if (end >= in.size() || in[end] != '}' || end == at + 1) {
        atom = out.size(); // a plain brace
        out += "\\{";
        ++at;
        return;
      }
      isInterval = true;
      // PCRE2 reads {,n} as text.
      out += in[at + 1] == ',' ? "{0" + std::string(in.substr(at + 1, end - at))
                               : std::string(in.substr(at, end + 1 - at));
      at = end + 1;
    } else {
      out += in[at++];
    }
    if (at < in.size() && in[at] == '?') {
      out += in[at++];
    } else if (at < in.size() && in[at] == '+') {
      // After an interval Ruby's '+' repeats; after the others it is possessive, as in PCRE2.
      if (isInterval) {
        out.insert(atom, "(?:");
        out += ")";
      }
      out += in[at++];
    }
  }

  void translateSet() {
    out += in[at++];
    if (at < in.size() && in[at] == '^')
      out += in[at++];
    bool isFirst = true;
    while (at < in.size() && problem.empty()) {
      char c = in[at];
      if (c == ']' && !isFirst) {
        out += in[at++];
        return;
      }
      isFirst = false;
      if (c == '[') {
        if (in.substr(at).starts_with("[:")) {
          size_t end = in.find(":]", at);
          if (end != std::string_view::npos) {
            out += in.substr(at, end + 2 - at);
            at = end + 2;
            continue;
          }
        }
        refuse("a set within a set");
      } else if (in.substr(at).starts_with("&&")) {
        refuse("an intersection of sets");
      } else if (c == '\\') {
        translateEscape(/*inSet=*/true);
      } else {
        out += in[at++];
      }
    }
    if (problem.empty())
      refuse("a set without ']'");
  }

  void putSet(std::string_view members, bool inSet, bool isNegated) {
    if (inSet && isNegated) {
      refuse("a negated class within a set");
      return;
    }
    if (inSet)
      out += members;
    else
      out += (isNegated ? "[^" : "[") + std::string(members) + "]";
    at += 2;
  }

  void translateEscape(bool inSet) {
    if (at + 1 >= in.size()) {
      refuse("a '\\' at the end");
      return;
    }
    switch (in[at + 1]) {
    case 's':
      return putSet(kSpaces, inSet, false);
    case 'S':
      // In a set PCRE2's \S serves: it lacks one control character, U+180E, which is added.
      if (!inSet)
        return putSet(kSpaces, inSet, true);
      out += "\\S\\x{180E}";
      at += 2;
      return;
    case 'w':
      return putSet(kWords, inSet, false);
    case 'W':
      return putSet(kWords, inSet, true);
    case 'h':
      return putSet(kHexDigits, inSet, false);
    case 'H':
      return putSet(kHexDigits, inSet, true);
    case 'p':
    case 'P':
      return translateProperty();
    case 'R':
    case 'X':
    case 'K':
    case 'G':
    case 'b':
    case 'B':
    case 'g':
    case 'k':
    case 'y':
    case 'Y':
      if (!(inSet && in[at + 1] == 'b')) {
        refuse("an escape that the two dialects read differently");
        return;
      }
      [[fallthrough]];
    default:
      if (in[at + 1] == 'u' || in[at + 1] == 'x')
        return translateCodepoint();
      out += in.substr(at, 2);
      at += 2;
    }
  }

  /// \uHHHH and \x{H…} and \xHH name a character.
  void translateCodepoint() {
    size_t digits = at + 2;
    size_t count = in[at + 1] == 'u' ? 4 : 2;
    if (in[at + 1] == 'x' && digits < in.size() && in[digits] == '{') {
      ++digits;
      size_t close = in.find('}', digits);
      count = close == std::string_view::npos ? 0 : close - digits;
    }
    std::string_view value = in.substr(digits, count);
    if (value.empty() || value.size() > 6 ||
        value.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
      refuse("a malformed character number");
      return;
    }
    out += "\\x{" + std::string(value) + "}";
    at = digits + value.size() + (digits == at + 3 ? 1 : 0);
  }

  void translateProperty() {
    if (at + 2 >= in.size() || in[at + 2] != '{') {
      refuse("a property without braces");
      return;
    }
    size_t close = in.find('}', at);
    if (close == std::string_view::npos) {
      refuse("a property without '}'");
      return;
    }
    std::string_view name = in.substr(at + 3, close - at - 3);
    bool isNegated = in[at + 1] == 'P';
    if (name.starts_with('^')) {
      isNegated = !isNegated;
      name.remove_prefix(1);
    }
    // General categories are one or two letters; longer names are scripts, of which PCRE2 takes
    // the extended form unless told otherwise.
    std::string_view kind = name.size() > 2 && name != "Any" ? "sc:" : "";
    out += isNegated ? "\\P{" : "\\p{";
    out += std::string(kind) + std::string(name) + "}";
    at = close + 1;
  }

  std::string_view in;
  size_t at = 0;
  std::string out;
  size_t atom = 0;            // where in `out` the item before a quantifier starts
  std::vector<size_t> groups; // where in `out` the open groups start
  std::string problem;
};

/// Empty, or why PCRE2 rejects the pattern.
std::string findPcre2Problem(const std::string &pattern) {
  int error = 0;
  PCRE2_SIZE where = 0;
  pcre2_code *code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where, nullptr);
  if (code) {
    pcre2_code_free(code);
    return "";
  }
  PCRE2_UCHAR text[128] = "unknown error";
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char *>(text);
}

} // namespace

RegexTranslation translateRegex(std::string_view pattern) {
  RegexTranslation translation = Translator(pattern).run();
  if (translation.problem.empty())
    translation.problem = findPcre2Problem(translation.pattern);
  return translation;
}

std::string quoteForRegex(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) && c != '_')
      out += '\\';
    out += c;
  }
  return out;
}

} // namespace llmc
