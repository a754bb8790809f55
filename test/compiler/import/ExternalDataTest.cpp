// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// External data: mapped where they lie, and never outside of the model's folder.
#include "compiler/support/WeightStore.h"
#include "ModelBuilder.h"

#include <cstring>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace sluicec::test;
using sluicec::ImportOptions;
using sluicec::support::WeightStore;
using testing::HasSubstr;
namespace fs = std::filesystem;

namespace {

// A model whose weight w, f32 [1000], lies in `location`.
ModelBuilder modelWith(const std::string &location, const std::string &offset = "0",
                       const std::string &length = "4000") {
  ModelBuilder model = ModelBuilder::sum();
  auto &w = model.tensor("w", Proto::FLOAT, {1000});
  w.set_data_location(Proto::EXTERNAL);
  for (const auto &[key, value] : {std::pair("location", location), std::pair("offset", offset),
                                   std::pair("length", length)}) {
    if (!value.empty()) {
      auto *entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  }
  return model;
}

// Imports a model in folder "model", beside which lies "outside.bin" with enough data.
struct ExternalRun {
  explicit ExternalRun(const ModelBuilder &model,
                       const std::function<void(const TemporaryFolder &)> &prepare = {},
                       const std::string &root = "") {
    path = folder.write("model/model.onnx", model.bytes());
    folder.write("outside.bin", std::string(8000, 'x'));
    if (prepare) {
      prepare(folder);
    }
    ImportOptions options;
    options.externalDataRoot = root.empty() ? "" : folder.path(root);
    run = std::make_unique<ImportRun>(path, options);
  }
  TemporaryFolder folder;
  std::string path;
  std::unique_ptr<ImportRun> run;
};

std::string error(const std::string &text) {
  return "model.onnx: tensor 'w': error: " + text + "\n";
}

TEST(ExternalData, MappedWhereTheyLie) {
  std::vector<float> values(1002);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
  }
  std::string bytes(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  for (std::string location : {"w.bin", "./sub/w.bin"}) {
    ExternalRun external(modelWith(location, "8"),
                         [&](const TemporaryFolder &f) { f.write("model/" + location, bytes); });
    ASSERT_TRUE(external.run->ok()) << external.run->messages;
    auto read = WeightStore::of(&external.run->context).readAsF32("w");
    ASSERT_TRUE(read);
    EXPECT_EQ((*read)[0], 2.0f);
    EXPECT_EQ((*read)[999], 1001.0f);
  }
}

TEST(ExternalData, RangeIsChecked) {
  auto write = [](size_t size) {
    return [size](const TemporaryFolder &f) { f.write("model/w.bin", std::string(size, 'x')); };
  };
  EXPECT_EQ(ExternalRun(modelWith("w.bin"), write(3999)).run->messages,
            error("external data need 4000 bytes at offset 0, file 'w.bin' has 3999 bytes"));
  EXPECT_EQ(ExternalRun(modelWith("w.bin", "1"), write(4000)).run->messages,
            error("external data need 4000 bytes at offset 1, file 'w.bin' has 4000 bytes"));
  EXPECT_EQ(ExternalRun(modelWith("w.bin", "18446744073709551612"), write(8000)).run->messages,
            error("external data need 4000 bytes at offset 18446744073709551612, file 'w.bin' has "
                  "8000 bytes"));
  EXPECT_EQ(ExternalRun(modelWith("w.bin", "-4"), write(8000)).run->messages,
            error("external data offset is '-4', expected a number of bytes"));
  EXPECT_EQ(ExternalRun(modelWith("w.bin", "0", "3996"), write(8000)).run->messages,
            error("external data length is 3996 bytes, shape [1000] of f32 needs 4000"));
  EXPECT_TRUE(ExternalRun(modelWith("w.bin", "", ""), write(4000)).run->ok());
}

TEST(ExternalData, PathsStayInTheFolder) {
  auto messages = [](const std::string &location) {
    return ExternalRun(modelWith(location)).run->messages;
  };
  EXPECT_EQ(
      messages("../outside.bin"),
      error("external data file '../outside.bin': the path leaves the model's folder with '..'"));
  EXPECT_EQ(messages("a/../../outside.bin"), error("external data file 'a/../../outside.bin': the "
                                                   "path leaves the model's folder with '..'"));
  EXPECT_EQ(messages("/etc/hostname"), error("external data file '/etc/hostname': the path is "
                                             "absolute, expected one below the model's folder"));
  EXPECT_EQ(messages("/dev/zero"), error("external data file '/dev/zero': the path is absolute, "
                                         "expected one below the model's folder"));
  EXPECT_EQ(messages("..\\outside.bin"), error("external data file '..\\outside.bin': the path "
                                               "holds a backslash; expected '/' between folders"));
  EXPECT_EQ(messages("C:outside.bin"),
            error("external data file 'C:outside.bin': the path starts with a drive letter, "
                  "expected one below the model's folder"));
  EXPECT_EQ(messages(std::string("w.bin\0/x", 8)),
            error("external data file 'w.bin': the path holds a NUL character"));
  EXPECT_EQ(messages(""), error("external data file '': the path is empty"));
  EXPECT_EQ(messages("none.bin"), error("cannot open 'none.bin': No such file or directory"));
  EXPECT_EQ(messages("."), error("external data file '.' is no regular file"));
}

TEST(ExternalData, LinksAreRefused) {
  std::string remedy = "' passes through a symbolic link or a file; copy the file beside the model "
                       "or pass --external-data-root=DIR";
  EXPECT_EQ(ExternalRun(modelWith("w.bin"),
                        [](const TemporaryFolder &f) {
                          fs::create_symlink(f.path("outside.bin"), f.path("model/w.bin"));
                        })
                .run->messages,
            error("'w.bin" + remedy));
  EXPECT_EQ(ExternalRun(modelWith("sub/outside.bin"),
                        [](const TemporaryFolder &f) {
                          fs::create_directory_symlink(f.folder, f.path("model/sub"));
                        })
                .run->messages,
            error("'sub/outside.bin" + remedy));
  EXPECT_EQ(ExternalRun(modelWith("w.bin"),
                        [](const TemporaryFolder &f) {
                          fs::create_hard_link(f.path("outside.bin"), f.path("model/w.bin"));
                        })
                .run->messages,
            error("external data file 'w.bin' is a hard link, which may lead out of the model's "
                  "folder; copy it or pass "
                  "--external-data-root=DIR"));
}

TEST(ExternalData, OnlyRegularFiles) {
  // A FIFO without a writer would hang a plain open.
  EXPECT_EQ(ExternalRun(modelWith("w.bin"),
                        [](const TemporaryFolder &f) {
                          ASSERT_EQ(::mkfifo(f.path("model/w.bin").c_str(), 0600), 0);
                        })
                .run->messages,
            error("external data file 'w.bin' is no regular file"));
  EXPECT_EQ(ExternalRun(modelWith("sub"),
                        [](const TemporaryFolder &f) { fs::create_directory(f.path("model/sub")); })
                .run->messages,
            error("external data file 'sub' is no regular file"));
}

TEST(ExternalData, RootAllowsLinksInsideIt) {
  auto link = [](const TemporaryFolder &f) {
    f.write("blobs/1234", std::string(4000, 'x'));
    fs::create_directories(f.path("snapshot"));
    fs::create_symlink("../blobs/1234", f.path("snapshot/w.bin"));
    fs::create_symlink("/etc/hostname", f.path("snapshot/away.bin"));
  };
  EXPECT_TRUE(ExternalRun(modelWith("snapshot/w.bin"), link, ".").run->ok());
  EXPECT_EQ(ExternalRun(modelWith("w.bin"), link, "snapshot").run->messages,
            error("external data file 'w.bin' leads out of --external-data-root"));
  EXPECT_EQ(ExternalRun(modelWith("snapshot/away.bin"), link, ".").run->messages,
            error("external data file 'snapshot/away.bin' leads out of --external-data-root"));
  EXPECT_THAT(ExternalRun(modelWith("../outside.bin"), link, "snapshot").run->messages,
              HasSubstr("leaves the model's folder"));
  EXPECT_THAT(ExternalRun(modelWith("w.bin"), link, "nowhere").run->messages,
              HasSubstr("cannot open folder"));
}

// Weights of a model file itself are mapped too, not parsed onto the heap.
TEST(ExternalData, RawDataStayInTheModelFile) {
  ModelBuilder model = ModelBuilder::sum();
  model.floats("w", {1000}, std::vector<float>(1000, 3.0f));
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  const char *data = WeightStore::of(&run.context).bytes("w").data();
  // The mapping is read-only: writing to it through the kernel fails, which it would not on the
  // heap.
  int null = ::open("/dev/zero", O_RDONLY);
  EXPECT_EQ(::read(null, const_cast<char *>(data), 1), -1);
  ::close(null);
  EXPECT_EQ((*WeightStore::of(&run.context).readAsF32("w"))[999], 3.0f);
}

} // namespace
