// SPDX-License-Identifier: Apache-2.0
//
// The team under what hurts barriers: more threads than cores, pauses, signals
// that stop the whole process, and many short regions.
#include "runtime/drivers/cpu/ThreadTeam.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <ctime>
#include <spawn.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace llmc {
namespace {

constexpr uint32_t kSizes[] = {1, 2, 3, 16};

/// Work whose result shows whether every phase saw all of the phase before: a ring of cells, in
/// which each worker adds its left neighbour's value of the last phase.
struct Ring {
  ThreadTeam *team;
  int phases;
  std::vector<uint64_t> cells[2]; // plain memory: the barrier is all that orders it
  static void body(void *context, uint32_t worker) {
    auto &ring = *static_cast<Ring *>(context);
    uint32_t size = ring.team->workers();
    for (int phase = 0; phase < ring.phases; ++phase) {
      const std::vector<uint64_t> &last = ring.cells[phase % 2];
      std::vector<uint64_t> &next = ring.cells[1 - phase % 2];
      next[worker] = last[worker] + last[(worker + size - 1) % size] + 1;
      ring.team->sync();
    }
  }
};

std::vector<uint64_t> expectedRing(uint32_t size, int phases) {
  std::vector<uint64_t> cells(size, 0);
  for (int phase = 0; phase < phases; ++phase) {
    std::vector<uint64_t> next(size);
    for (uint32_t i = 0; i < size; ++i)
      next[i] = cells[i] + cells[(i + size - 1) % size] + 1;
    cells = next;
  }
  return cells;
}

std::unique_ptr<ThreadTeam> makeTeam(uint32_t workers) {
  Result<std::unique_ptr<ThreadTeam>> team =
      ThreadTeam::create(workers, std::thread::hardware_concurrency());
  EXPECT_TRUE(team.isOk());
  return std::move(*team);
}

std::vector<uint64_t> runRing(ThreadTeam &team, int phases) {
  Ring ring{&team, phases, {}};
  ring.cells[0].assign(team.workers(), 0);
  ring.cells[1].assign(team.workers(), 0);
  team.run(Ring::body, &ring);
  return ring.cells[phases % 2];
}

TEST(ThreadTeam, EveryWorkerTakesPartOnceAndTheCallerIsWorkerZero) {
  for (uint32_t size : kSizes) {
    auto team = makeTeam(size);
    struct Seen {
      std::vector<int> count;
      std::vector<std::thread::id> thread;
    };
    for (int repeat = 0; repeat < 100; ++repeat) {
      Seen seen{std::vector<int>(size), std::vector<std::thread::id>(size)};
      team->run(
          [](void *context, uint32_t worker) {
            auto &own = *static_cast<Seen *>(context);
            ++own.count[worker];
            own.thread[worker] = std::this_thread::get_id();
          },
          &seen);
      EXPECT_EQ(seen.count, std::vector<int>(size, 1));
      EXPECT_EQ(seen.thread[0], std::this_thread::get_id());
    }
  }
}

TEST(ThreadTeam, PhasesSeeAllOfThePhaseBefore) {
  for (uint32_t size : kSizes)
    for (int phases : {1, 2, 3, 100, 1001}) {
      auto team = makeTeam(size);
      EXPECT_EQ(runRing(*team, phases), expectedRing(size, phases)) << size << ", " << phases;
    }
}

TEST(ThreadTeam, WakesAfterPauses) {
  for (uint32_t size : kSizes) {
    auto team = makeTeam(size);
    for (int microseconds : {0, 10, 60, 500, 900, 1000, 1100, 5000, 20000}) {
      std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
      EXPECT_EQ(runRing(*team, 10), expectedRing(size, 10));
    }
  }
}

TEST(ThreadTeam, ParksWhenThereIsNoWork) {
  auto team = makeTeam(2);
  runRing(*team, 10);
  std::this_thread::sleep_for(std::chrono::milliseconds(50)); // longer than it stays awake
  auto cpuTime = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
  };
  double before = cpuTime();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpuTime() - before, 100.0) << "ms of CPU time in 300 ms without work";
}

TEST(ThreadTeam, ServesOneCallerAfterAnother) {
  auto team = makeTeam(3);
  for (int i = 0; i < 20; ++i)
    std::thread([&] { EXPECT_EQ(runRing(*team, 50), expectedRing(3, 50)); }).join();
}

TEST(ThreadTeam, EndsAtOnceAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    auto team = makeTeam(1 + static_cast<uint32_t>(i % 5));
    if (i % 2 == 0)
      runRing(*team, 3);
    if (i % 3 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(i * 50));
  }
}

TEST(ThreadTeam, TeamsRunBesideEachOther) {
  auto first = makeTeam(3);
  auto second = makeTeam(3);
  std::thread other([&] {
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(runRing(*second, 100), expectedRing(3, 100));
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(runRing(*first, 100), expectedRing(3, 100));
  other.join();
}

// What the next test starts as a process of its own.
TEST(ThreadTeamChild, DISABLED_WorksForHalfASecond) {
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  auto small = makeTeam(2);
  auto large = makeTeam(16);
  while (std::chrono::steady_clock::now() < end) {
    ASSERT_EQ(runRing(*small, 500), expectedRing(2, 500));
    ASSERT_EQ(runRing(*large, 20), expectedRing(16, 20));
  }
}

TEST(ThreadTeam, SurvivesStopAndContinue) {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {"team", "--gtest_also_run_disabled_tests",
                                        "--gtest_filter=ThreadTeamChild.*", "--gtest_brief=1"};
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, argv.data(), environ), 0);
  for (int i = 0; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25 + i));
    kill(child, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(child, SIGCONT);
  }
  int status = 0;
  pid_t ended = 0;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((ended = waitpid(child, &status, WNOHANG)) == 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    FAIL() << "the child hangs";
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

} // namespace
} // namespace llmc
