// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads templates such as "<s> $A </s>".
#include "runtime/tokenizer/PostProcessor.h"

namespace sluice {

namespace {

constexpr int kMaxDepth = 8;
constexpr size_t kMaxAddedIds = 1024;

/// The ids of one special token of a template: special_tokens[NAME].ids.
Status appendIds(const JsonView &specials, const std::string &name, std::vector<int32_t> &out) {
  const JsonView ids = specials.member(name).member("ids");
  if (!ids.isArray()) {
    return ids.wrong("expected an array of token ids");
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    auto id = ids.element(i).tokenId();
    if (!id) {
      return id.error();
    }
    if (out.size() >= kMaxAddedIds) {
      return ids.wrong("the template adds more than " + std::to_string(kMaxAddedIds) + " ids");
    }
    out.push_back(*id);
  }
  return Status::ok();
}

} // namespace

Result<PostProcessor> PostProcessor::fromJson(const JsonView &view) {
  PostProcessor processor;
  if (!view.isNull()) {
    SLUICE_RETURN_IF_ERROR(processor.add(view, 0));
  }
  return processor;
}

Status PostProcessor::add(const JsonView &view, int depth) {
  auto type = view.type();
  if (!type) {
    return type.error();
  }
  if (*type == "ByteLevel") {
    return Status::ok();
  }
  if (*type == "TemplateProcessing") {
    return addTemplate(view);
  }
  if (*type == "Sequence" && depth < kMaxDepth) {
    const JsonView items = view.member("processors");
    if (!items.isArray()) {
      return items.wrong("expected an array");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(add(items.element(i), depth + 1));
    }
    return Status::ok();
  }
  return view.notSupported("post-processor " + *type +
                           " is not supported; expected null, ByteLevel, TemplateProcessing or "
                           "Sequence; give token ids instead of text (--ids)");
}

Status PostProcessor::addTemplate(const JsonView &view) {
  const JsonView single = view.member("single");
  if (!single.isArray()) {
    return single.wrong("expected an array");
  }
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool seenText = false;
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonView item = single.element(i);
    const JsonView special = item.member("SpecialToken");
    const JsonView sequence = item.member("Sequence");
    auto id = (special.isNull() ? sequence : special).member("id").string();
    if (!id) {
      return id.error();
    }
    if (special.isNull()) {
      if (*id != "A" || seenText) {
        return item.notSupported("expected the text $A once");
      }
      seenText = true;
      continue;
    }
    SLUICE_RETURN_IF_ERROR(
        appendIds(view.member("special_tokens"), *id, seenText ? after : before));
  }
  if (!seenText) {
    return single.notSupported("the template drops the text, expected $A in it");
  }
  // A later processor wraps around an earlier one's result.
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
  if (before_.size() + after_.size() > kMaxAddedIds) {
    return view.wrong("the templates add more than " + std::to_string(kMaxAddedIds) + " ids");
  }
  return Status::ok();
}

} // namespace sluice
