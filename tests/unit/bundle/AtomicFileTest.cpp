// SPDX-License-Identifier: Apache-2.0
//
// A file appears whole or not at all: under kills at random moments, with full
// disks and missing rights, and beside other writers of the same name.
#include "compiler/bundle/AtomicFile.h"
#include "compiler/bundle/ArchiveWriter.h"
#include "tests/unit/bundle/TestBundle.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace llmc {
namespace {

using test::readFile;
using test::TemporaryFolder;
using test::writeFile;
using Kind = AtomicFile::Kind;
using Names = std::vector<std::string>;

class AtomicFileKinds : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Both, AtomicFileKinds,
                         testing::Values(Kind::AnonymousIfPossible, Kind::Named),
                         [](const auto &info) {
                           return info.param == Kind::Named ? "Named" : "Anonymous";
                         });

/// Writes `text` to `path`; empty, or the error.
std::string put(const std::string &path, const std::string &text, Kind kind) {
  std::string error;
  auto file = AtomicFile::create(path, error, kind);
  if (!file)
    return error;
  if (write(file->descriptor(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return "cannot write the test's text";
  return file->commit(error) ? "" : error;
}

TEST_P(AtomicFileKinds, CreatesAndReplaces) {
  TemporaryFolder folder;
  ASSERT_EQ(put(folder.path("f"), "one", GetParam()), "");
  EXPECT_EQ(readFile(folder.path("f")), "one");
  ASSERT_EQ(put(folder.path("f"), "two", GetParam()), "");
  EXPECT_EQ(readFile(folder.path("f")), "two");
  EXPECT_EQ(folder.list(), Names{"f"});
}

TEST_P(AtomicFileKinds, LeavesNothingWithoutCommit) {
  TemporaryFolder folder;
  writeFile(folder.path("f"), "old");
  for (const char *name : {"f", "new"}) {
    std::string error;
    auto file = AtomicFile::create(folder.path(name), error, GetParam());
    ASSERT_TRUE(file) << error;
    ASSERT_EQ(write(file->descriptor(), "x", 1), 1);
  }
  EXPECT_EQ(readFile(folder.path("f")), "old");
  EXPECT_EQ(folder.list(), Names{"f"});
}

TEST_P(AtomicFileKinds, RespectsUmask) {
  TemporaryFolder folder;
  mode_t old = umask(027);
  ASSERT_EQ(put(folder.path("f"), "x", GetParam()), "");
  umask(old);
  struct stat info;
  ASSERT_EQ(stat(folder.path("f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_P(AtomicFileKinds, WritesThroughSymbolicLinks) {
  TemporaryFolder folder;
  writeFile(folder.path("real"), "old");
  ASSERT_EQ(symlink("real", folder.path("link").c_str()), 0);
  ASSERT_EQ(put(folder.path("link"), "new", GetParam()), "");
  EXPECT_EQ(readFile(folder.path("real")), "new");
  struct stat info;
  ASSERT_EQ(lstat(folder.path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

TEST_P(AtomicFileKinds, TakesLongNames) {
  TemporaryFolder folder;
  std::string name(255, 'n');
  ASSERT_EQ(put(folder.path(name), "x", GetParam()), "");
  ASSERT_EQ(put(folder.path(name), "y", GetParam()), "");
  EXPECT_EQ(folder.list(), Names{name});
}

TEST_P(AtomicFileKinds, SaysWhyItCannotWrite) {
  TemporaryFolder folder;
  EXPECT_EQ(put(folder.path("no/f"), "x", GetParam()), "cannot write '" + folder.path("no/f") +
                                                           "': there is no folder '" +
                                                           folder.path("no/") + "'");
  ASSERT_EQ(mkdir(folder.path("d").c_str(), 0777), 0);
  EXPECT_EQ(put(folder.path("d"), "x", GetParam()),
            "cannot write '" + folder.path("d") + "': it exists and is a folder");
  EXPECT_EQ(put("/dev/null", "x", GetParam()),
            "cannot write '/dev/null': it exists and is not a regular file");
  EXPECT_NE(put("", "x", GetParam()), "");
  EXPECT_NE(put(folder.path("new/"), "x", GetParam()), "");
}

/// Runs `body` in a child process, whose exit status it gives.
int inChild(const std::function<int()> &body) {
  pid_t child = fork();
  if (child == 0)
    _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_P(AtomicFileKinds, SaysThatPermissionIsMissing) {
  TemporaryFolder folder;
  ASSERT_EQ(mkdir(folder.path("d").c_str(), 0777), 0);
  ASSERT_EQ(chmod(folder.path("d").c_str(), 0555), 0);
  ASSERT_EQ(chmod(folder.path("").c_str(), 0755), 0);
  int status = inChild([&] {
    if (getuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(65534) != 0 || setuid(65534) != 0))
      return 2;
    std::string error = put(folder.path("d/f"), "x", GetParam());
    return error == "cannot write '" + folder.path("d/f") + "': Permission denied" ? 0 : 1;
  });
  if (status == 2)
    GTEST_SKIP() << "this user can neither be denied anything nor become another";
  EXPECT_EQ(status, 0);
}

TEST(ArchiveWriterErrors, SayThatTheDiskIsFull) {
  TemporaryFolder folder;
  int status = inChild([&] {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", folder.path("").c_str(), "tmpfs", 0, "size=4m") != 0)
      return 2;
    std::string path = folder.path("a.zip"), error;
    auto writer = ArchiveWriter::open(path, error);
    if (!writer || !writer->beginEntry("weights.bin", 64))
      return 3;
    std::string megabyte(1 << 20, 'x');
    for (int i = 0; i < 100 && writer->append(megabyte); ++i) {
    }
    if (writer->commit())
      return 4;
    std::string found = writer->error();
    writer.reset();
    if (!folder.list().empty())
      return 5;
    return found == "cannot write '" + path + "': No space left on device" ? 0 : 6;
  });
  if (status == 2)
    GTEST_SKIP() << "only root can mount a small disk";
  EXPECT_EQ(status, 0);
}

TEST_P(AtomicFileKinds, RemovesWhatKilledWritersLeft) {
  TemporaryFolder folder;
  std::string left = ".f.llmc-tmp-0123456789abcdef";
  // Similar names that are no temporary files of `f`.
  Names others = {".f.llmc-tmp-0123456789abcde", ".f.llmc-tmp-0123456789abcdeX",
                  ".g.llmc-tmp-0123456789abcdef", "f.llmc-tmp-0123456789abcdef"};
  for (const std::string &name : others)
    writeFile(folder.path(name), "other");
  writeFile(folder.path(left), "left");
  ASSERT_EQ(put(folder.path("f"), "x", GetParam()), "");
  Names expected = others;
  expected.push_back("f");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(folder.list(), expected);
}

TEST_P(AtomicFileKinds, LeavesOtherWritersAlone) {
  TemporaryFolder folder;
  std::string error;
  auto first = AtomicFile::create(folder.path("f"), error, Kind::Named);
  ASSERT_TRUE(first) << error;
  ASSERT_EQ(write(first->descriptor(), "first", 5), 5);
  ASSERT_EQ(put(folder.path("f"), "second", GetParam()), "");
  EXPECT_EQ(readFile(folder.path("f")), "second");
  EXPECT_EQ(folder.list().size(), 2u);
  ASSERT_TRUE(first->commit(error)) << error;
  EXPECT_EQ(readFile(folder.path("f")), "first");
  EXPECT_EQ(folder.list(), Names{"f"});
}

TEST_P(AtomicFileKinds, SurvivesKillsAtRandomMoments) {
  TemporaryFolder folder;
  std::string path = folder.path("f"), old(300000, 'o'), fresh(300000, 'n');
  std::mt19937 random(7);
  int killedWhileOld = 0;
  for (int round = 0; round < 60; ++round) {
    // The file exists in two rounds of three: the first writer of a name takes another way.
    unlink(path.c_str());
    if (round % 3)
      writeFile(path, old);
    pid_t child = fork();
    if (child == 0)
      _exit(put(path, fresh, GetParam()) == "" ? 0 : 1);
    usleep(random() % 6000);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    std::string found = readFile(path);
    if (found != fresh) {
      ++killedWhileOld;
      ASSERT_EQ(found, round % 3 ? old : "") << "neither the old nor the new file";
    }
    // At most a temporary file is left, which the next writer of this name removes.
    ASSERT_LE(folder.list().size(), 2u);
    ASSERT_EQ(put(path, fresh, GetParam()), "");
    ASSERT_EQ(folder.list(), Names{"f"});
  }
  EXPECT_GT(killedWhileOld, 0) << "no kill came early enough to test anything";
}

TEST(ArchiveWriterKill, LeavesTheOldBundle) {
  TemporaryFolder folder;
  std::string path = folder.path("model.llmc");
  test::TestBundle bundle = test::makeTestBundle();
  ASSERT_EQ(bundle.write(path), "");
  std::string old = readFile(path);
  bundle.find("weights.bin")->bytes[0] = 'X';
  ASSERT_EQ(bundle.write(folder.path("other")), "");
  std::string fresh = readFile(folder.path("other"));
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    writeFile(path, old);
    pid_t child = fork();
    if (child == 0)
      _exit(bundle.write(path).empty() ? 0 : 1);
    usleep(random() % 10000);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    std::string found = readFile(path);
    ASSERT_TRUE(found == old || found == fresh);
  }
  ASSERT_EQ(bundle.write(path), "");
  EXPECT_EQ(folder.list(), (Names{"model.llmc", "other"}));
}

} // namespace
} // namespace llmc
