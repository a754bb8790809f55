// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MappedFile: what it maps, what it refuses, and that moving keeps the address.
#include "runtime/base/MappedFile.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sluice {
namespace {

class MappedFileTest : public testing::Test {
protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "mapped-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override {
    ::unlink(path().c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/file"; }
  void write(const std::string &text) const { std::ofstream(path(), std::ios::binary) << text; }

  std::string folder_;
};

TEST_F(MappedFileTest, GivesTheBytesAndKeepsTheirAddressWhenMoved) {
  const std::string text(10000, 'a');
  write(text + "b");
  auto file = MappedFile::open(path());
  ASSERT_TRUE(file) << file.error().message();
  const std::byte *address = file->bytes().data();
  MappedFile moved = std::move(*file);
  ASSERT_EQ(moved.bytes().size(), text.size() + 1);
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(moved.bytes().back(), std::byte{'b'});
  EXPECT_TRUE(file->bytes().empty());
  moved.willNeed(0, UINT64_MAX);
  moved.prefault(5000, UINT64_MAX);
  moved.prefault(UINT64_MAX, 1); // outside: nothing
}

TEST_F(MappedFileTest, EmptyFileIsEmpty) {
  write("");
  const auto file = MappedFile::open(path());
  ASSERT_TRUE(file);
  EXPECT_TRUE(file->bytes().empty());
}

TEST_F(MappedFileTest, NamesWhatCanNotBeMapped) {
  const auto missing = MappedFile::open(path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::NotFound);
  EXPECT_EQ(missing.error().message(), path() + ": can't open: No such file or directory");

  const auto folder = MappedFile::open(folder_);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code(), Code::InvalidArgument);
  EXPECT_EQ(folder.error().message(), folder_ + ": not a regular file");

  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  const auto pipe = MappedFile::open(path()); // must not wait for a writer
  ASSERT_FALSE(pipe);
  EXPECT_EQ(pipe.error().message(), path() + ": not a regular file");
}

} // namespace
} // namespace sluice
