// SPDX-License-Identifier: Apache-2.0
//
// Parsing and its errors, alike for all commands.
#include "tools/cli/Commands.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <vector>

namespace llmc::cli {

namespace {

/// Levenshtein distance.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The candidate nearest to `word`, if it is near enough to be what was meant.
std::string nearest(const std::string &word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = word.size() / 3 + 2;
  for (const std::string &candidate : candidates) {
    size_t distance = editDistance(word, candidate);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = candidate;
    }
  }
  return best;
}

/// Every flag and option of `app`, with its dashes.
std::vector<std::string> flagsOf(const CLI::App &app) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : app.get_options()) {
    for (const std::string &name : option->get_lnames())
      flags.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      flags.push_back("-" + name);
  }
  return flags;
}

std::vector<std::string> commandsOf(CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *command : app.get_subcommands([](CLI::App *) { return true; }))
    names.push_back(command->get_name());
  return names;
}

int reportUsage(CLI::App &app, const CLI::Error &error) {
  std::vector<CLI::App *> chosen = app.get_subcommands();
  CLI::App &command = chosen.empty() ? app : *chosen.back();
  std::string name = app.get_name() + (chosen.empty() ? "" : " " + command.get_name());
  std::string text = error.what();
  std::vector<std::string> extras = app.remaining(true);
  if (!extras.empty()) {
    std::string word = extras.front().substr(0, extras.front().find('='));
    bool isFlag = word.starts_with('-');
    bool isCommand = !isFlag && chosen.empty();
    text = (isFlag      ? "unknown flag '"
            : isCommand ? "unknown command '"
                        : "unexpected argument '") +
           word + "'";
    std::string meant = isFlag      ? nearest(word, flagsOf(command))
                        : isCommand ? nearest(word, commandsOf(app))
                                    : "";
    if (!meant.empty())
      text += "; did you mean '" + meant + "'?";
  }
  std::fprintf(stderr, "%s: %s\nSee `%s --help`.\n", name.c_str(), text.c_str(), name.c_str());
  return kUsage;
}

} // namespace

int reportFailure(const Status &status) {
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  switch (status.code()) {
  case Code::Ok:
    return kOk;
  case Code::NotFound:
  case Code::Unavailable:
    return kEnvironment;
  default:
    return kFailed;
  }
}

int parseCommandLine(CLI::App &app, int argc, const char *const *argv, const int &exitCode) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::vector<CLI::App *> chosen = app.get_subcommands();
    std::string help = chosen.empty() ? app.help() : chosen.back()->help(app.get_name());
    std::fputs(help.c_str(), stdout);
    return kOk;
  } catch (const CLI::CallForAllHelp &) {
    std::fputs(app.help("", CLI::AppFormatMode::All).c_str(), stdout);
    return kOk;
  } catch (const CLI::CallForVersion &version) {
    std::printf("%s\n", version.what());
    return kOk;
  } catch (const CLI::Error &error) {
    return reportUsage(app, error);
  } catch (const std::bad_alloc &) {
    return reportFailure(Status::error(Code::Unavailable, "out of memory"));
  } catch (const std::exception &error) {
    return reportFailure(Status::error(Code::Internal, "internal error: {}", error.what()));
  }
  return exitCode;
}

std::string examples(const CLI::App &app, std::initializer_list<const char *> lines) {
  std::string text = "Examples:";
  for (std::string line : lines) {
    for (size_t at; (at = line.find("$0")) != std::string::npos;)
      line.replace(at, 2, app.get_name());
    text += "\n  " + line;
  }
  return text;
}

} // namespace llmc::cli
