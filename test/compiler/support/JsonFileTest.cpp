// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON side files: members by path, absent files, hostile ones.
#include "compiler/support/JsonFile.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace sluicec::support;
using testing::HasSubstr;

namespace {

class JsonFileTest : public testing::Test {
protected:
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("sluice-json-" + std::to_string(::getpid()) + ".json");
  void TearDown() override { std::filesystem::remove_all(path); }

  llvm::Expected<JsonFile> read(const std::string &text) {
    std::ofstream(path, std::ios::binary) << text;
    return readJsonFile(path.string());
  }
  std::string error(const std::string &text) {
    auto file = read(text);
    return file ? "" : llvm::toString(file.takeError());
  }
};

TEST_F(JsonFileTest, Members) {
  auto file = read(R"({"a": 1, "b": {"c": 2.5, "d": "text"}, "e": [1, 2], "f": true, "g": null})");
  ASSERT_TRUE(static_cast<bool>(file));
  EXPECT_TRUE(file->isPresent());
  EXPECT_EQ(file->findInt("a"), 1);
  EXPECT_EQ(file->findNumber("b.c"), 2.5);
  EXPECT_EQ(file->findString("b.d"), "text");
  EXPECT_EQ(file->findBool("f"), true);
  EXPECT_EQ(file->findInts("e"), (llvm::SmallVector<int64_t>{1, 2}));
  EXPECT_EQ(file->findInts("a"), (llvm::SmallVector<int64_t>{1}));
  EXPECT_EQ(file->findInt("g"), std::nullopt);
  EXPECT_EQ(file->findInt("b.x.y"), std::nullopt);
  EXPECT_EQ(file->findInt("a.x"), std::nullopt);
}

TEST_F(JsonFileTest, AbsentFile) {
  auto file = readJsonFile(path.string());
  ASSERT_TRUE(static_cast<bool>(file));
  EXPECT_FALSE(file->isPresent());
  EXPECT_EQ(file->find("a"), nullptr);
}

TEST_F(JsonFileTest, Faults) {
  EXPECT_THAT(error("{\"a\": }"), HasSubstr(path.filename().string() + ": [1:"));
  EXPECT_THAT(error(std::string(100000, '[')), HasSubstr("nested too deep"));
  EXPECT_EQ(error("[\"" + std::string(1000, '[') + "\"]"), ""); // brackets inside a string
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  auto folder = readJsonFile(path.string());
  ASSERT_FALSE(static_cast<bool>(folder));
  EXPECT_THAT(llvm::toString(folder.takeError()), HasSubstr("it is no regular file"));
}

} // namespace
