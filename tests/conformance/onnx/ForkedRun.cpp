// SPDX-License-Identifier: Apache-2.0
//
// A child reports through a pipe, one line for a test's begin and one for its
// end: what began and did not end is what killed it.
#include "tests/conformance/onnx/ForkedRun.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace llmc::conformance {

namespace {

struct Child {
  pid_t pid;
  int pipe;
  std::vector<size_t> batch;
  size_t ended = 0;    // of the batch, which runs in order
  std::string partial; // an unfinished line
};

void writeLine(int pipe, std::string line) {
  for (char &c : line)
    if (c == '\n')
      c = ' ';
  line += '\n';
  for (size_t done = 0; done < line.size();) {
    ssize_t count = write(pipe, line.data() + done, line.size() - done);
    if (count <= 0)
      _exit(3); // nobody listens any more
    done += size_t(count);
  }
}

[[noreturn]] void runChild(int pipe, const std::vector<size_t> &batch, const ForkOptions &options,
                           const BatchBody &body) {
  body(
      batch, [&](size_t) { alarm(options.secondsPerTest); },
      [&](size_t, const TestResult &result) {
        alarm(0);
        writeLine(pipe, std::to_string(unsigned(result.verdict)) + result.text);
      });
  std::fflush(nullptr);
  _exit(0);
}

std::optional<Child> start(std::vector<size_t> batch, const ForkOptions &options,
                           const BatchBody &body) {
  int ends[2];
  if (pipe(ends) != 0)
    return std::nullopt;
  std::fflush(nullptr);
  pid_t pid = fork();
  if (pid < 0) {
    close(ends[0]);
    close(ends[1]);
    return std::nullopt;
  }
  if (pid == 0) {
    close(ends[0]);
    runChild(ends[1], batch, options, body);
  }
  close(ends[1]);
  return Child{pid, ends[0], std::move(batch), 0, ""};
}

void takeLines(Child &child, std::vector<TestResult> &results) {
  for (size_t end; (end = child.partial.find('\n')) != std::string::npos;) {
    unsigned verdict = unsigned(child.partial[0] - '0');
    if (child.ended < child.batch.size() && verdict < kVerdicts)
      results[child.batch[child.ended++]] = {Verdict(verdict), child.partial.substr(1, end - 1)};
    child.partial.erase(0, end + 1);
  }
}

std::string causeOfDeath(int status, unsigned seconds) {
  if (!WIFSIGNALED(status))
    return "the process exited with code " + std::to_string(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGALRM)
    return "not done after " + std::to_string(seconds) + " s";
  return strsignal(WTERMSIG(status));
}

} // namespace

std::vector<TestResult> runForked(size_t count, const ForkOptions &options, const BatchBody &body) {
  std::vector<TestResult> results(count);
  std::deque<std::vector<size_t>> waiting;
  for (size_t i = 0; i < count; ++i) {
    if (i % options.testsEach == 0)
      waiting.emplace_back();
    waiting.back().push_back(i);
  }
  std::vector<Child> children;
  while (!waiting.empty() || !children.empty()) {
    while (children.size() < options.processes && !waiting.empty()) {
      std::optional<Child> child = start(waiting.front(), options, body);
      if (!child) {
        std::perror("can't start a process");
        std::exit(3);
      }
      waiting.pop_front();
      children.push_back(std::move(*child));
    }
    std::vector<pollfd> polled;
    for (const Child &child : children)
      polled.push_back({child.pipe, POLLIN, 0});
    if (poll(polled.data(), polled.size(), -1) < 0)
      continue;
    for (size_t i = children.size(); i-- > 0;) {
      Child &child = children[i];
      if (!polled[i].revents)
        continue;
      char text[4096];
      ssize_t got = read(child.pipe, text, sizeof(text));
      if (got > 0) {
        child.partial.append(text, size_t(got));
        takeLines(child, results);
        continue;
      }
      int status = 0;
      waitpid(child.pid, &status, 0);
      close(child.pipe);
      if (child.ended < child.batch.size()) {
        results[child.batch[child.ended]] = {Verdict::Crashed,
                                             causeOfDeath(status, options.secondsPerTest)};
        std::vector<size_t> rest(child.batch.begin() + ptrdiff_t(child.ended) + 1,
                                 child.batch.end());
        if (!rest.empty())
          waiting.push_front(std::move(rest));
      }
      children.erase(children.begin() + ptrdiff_t(i));
    }
  }
  return results;
}

} // namespace llmc::conformance
