// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the parts of tokenizer.json together: added tokens, normalizer, pre-tokenizer, BPE,
// post-processor.
#include "runtime/tokenizer/Tokenizer.h"

#include "runtime/tokenizer/AddedTokens.h"
#include "runtime/tokenizer/BytePairEncoder.h"
#include "runtime/tokenizer/JsonView.h"
#include "runtime/tokenizer/Normalizer.h"
#include "runtime/tokenizer/PostProcessor.h"
#include "runtime/tokenizer/PreTokenizer.h"
#include "runtime/tokenizer/Unicode.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace sluice {

namespace {

constexpr size_t kMaxJsonBytes = size_t{256} << 20;
constexpr size_t kMaxJsonDepth = 64;

/// The decoder must be ByteLevel: it only concatenates bytes, which decode() does.
Status checkDecoder(const JsonView &view) {
  const JsonView items = view.member("decoders");
  const bool isWrapped = items.isArray() && items.size() == 1; // a Sequence of one
  const JsonView decoder = isWrapped ? items.element(0) : view;
  if (decoder.isNull()) {
    return decoder.notSupported("there is no decoder, expected ByteLevel");
  }
  auto type = decoder.type();
  if (!type) {
    return type.error();
  }
  if (*type != "ByteLevel") {
    return decoder.notSupported("decoder " + *type + " is not supported, expected ByteLevel");
  }
  return Status::ok();
}

/// True when brackets nest deeper than any tokenizer.json does: checked first, so that no later
/// step has to recurse far.
bool nestsTooDeep(std::string_view json) {
  size_t depth = 0;
  bool inString = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (inString) {
      i += c == '\\' ? 1 : 0;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return true;
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

} // namespace

struct Tokenizer::Parts {
  Parts(BytePairEncoder m, Normalizer n, PreTokenizer p, PostProcessor q, AddedTokens a)
      : model(std::move(m)), normalizer(std::move(n)), pre(std::move(p)), post(std::move(q)),
        added(std::move(a)) {}

  BytePairEncoder model;
  Normalizer normalizer;
  PreTokenizer pre;
  PostProcessor post;
  AddedTokens added;
  std::vector<std::string> bytes; // [vocabSize]: what each id stands for
  std::vector<bool> special;      // [vocabSize]
  std::unordered_map<std::string, int32_t> addedIds;
};

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::fromJson(std::string_view json) {
  if (json.size() > kMaxJsonBytes) {
    return invalidArgument("tokenizer.json has " + std::to_string(json.size()) +
                           " bytes, expected at most " + std::to_string(kMaxJsonBytes));
  }
  if (nestsTooDeep(json)) {
    return invalidArgument("tokenizer.json nests deeper than " + std::to_string(kMaxJsonDepth) +
                           " levels");
  }
  const nlohmann::json root =
      nlohmann::json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  const JsonView view(&root, "");
  if (root.is_discarded() || !view.isObject()) {
    return view.wrong("this is not a JSON object; copy the file again");
  }
  auto model = BytePairEncoder::fromJson(view.member("model"));
  if (!model) {
    return model.error();
  }
  auto normalizer = Normalizer::fromJson(view.member("normalizer"));
  if (!normalizer) {
    return normalizer.error();
  }
  auto pre = PreTokenizer::fromJson(view.member("pre_tokenizer"));
  if (!pre) {
    return pre.error();
  }
  auto post = PostProcessor::fromJson(view.member("post_processor"));
  if (!post) {
    return post.error();
  }
  SLUICE_RETURN_IF_ERROR(checkDecoder(view.member("decoder")));
  auto added = AddedTokens::fromJson(view.member("added_tokens"), *model, *normalizer);
  if (!added) {
    return added.error();
  }
  model->dropSpellings();
  auto parts = std::make_unique<Parts>(std::move(*model), std::move(*normalizer), std::move(*pre),
                                       std::move(*post), std::move(*added));
  parts->bytes = parts->model.takeTokens();
  for (const AddedToken &token : parts->added.tokens()) {
    const size_t index = static_cast<size_t>(token.id);
    parts->bytes.resize(std::max(parts->bytes.size(), index + 1));
    parts->bytes[index] = token.content;
    parts->addedIds.emplace(token.content, token.id);
  }
  parts->special.resize(parts->bytes.size());
  for (const AddedToken &token : parts->added.tokens()) {
    parts->special[static_cast<size_t>(token.id)] = token.special;
  }
  for (const auto *ids : {&parts->post.before(), &parts->post.after()}) {
    for (int32_t id : *ids) {
      if (static_cast<size_t>(id) >= parts->bytes.size()) {
        return view.member("post_processor")
            .wrong("id " + std::to_string(id) + " is not in the vocabulary");
      }
    }
  }
  return Tokenizer(std::move(parts));
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               const EncodeOptions &options) const {
  if (text.size() > kMaxTextBytes) {
    return invalidArgument("text has " + std::to_string(text.size()) + " bytes, expected at most " +
                           std::to_string(kMaxTextBytes));
  }
  if (const auto offset = firstInvalidUtf8(text)) {
    return invalidArgument("text is not valid UTF-8 at byte " + std::to_string(*offset) +
                           "; convert it to UTF-8");
  }
  const Parts &parts = *parts_;
  std::vector<int32_t> ids;
  if (options.addSpecial) {
    ids = parts.post.before();
  }
  PreTokenizer::Run run(parts.pre, text.size());
  BytePairEncoder::Scratch scratch;
  std::vector<std::string_view> pieces;
  for (const auto &raw : parts.added.split(text, AddedTokens::Stage::Raw, options.parseSpecial)) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
      continue;
    }
    auto normalized = parts.normalizer.apply(raw.text);
    if (!normalized) {
      return normalized.error();
    }
    for (const auto &segment :
         parts.added.split(*normalized, AddedTokens::Stage::Normalized, options.parseSpecial)) {
      if (segment.id >= 0) {
        ids.push_back(segment.id);
        continue;
      }
      SLUICE_RETURN_IF_ERROR(parts.pre.split(segment.text, run, pieces));
      for (std::string_view piece : pieces) {
        SLUICE_RETURN_IF_ERROR(parts.model.encode(piece, scratch, ids));
      }
    }
  }
  if (options.addSpecial) {
    ids.insert(ids.end(), parts.post.after().begin(), parts.post.after().end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skipSpecial) const {
  std::string bytes;
  for (int32_t id : ids) {
    if (!skipSpecial || !isSpecial(id)) {
      bytes += tokenBytes(id);
    }
  }
  return lossyUtf8(bytes);
}

std::string_view Tokenizer::tokenBytes(int32_t id) const {
  return id >= 0 && id < vocabSize() ? std::string_view(parts_->bytes[static_cast<size_t>(id)])
                                     : std::string_view();
}

int32_t Tokenizer::vocabSize() const { return static_cast<int32_t>(parts_->bytes.size()); }

bool Tokenizer::isSpecial(int32_t id) const {
  return id >= 0 && id < vocabSize() && parts_->special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::tokenId(std::string_view content) const {
  const auto it = parts_->addedIds.find(std::string(content));
  return it != parts_->addedIds.end() ? std::optional(it->second)
                                      : parts_->model.idOfBytes(content);
}

std::vector<int32_t> Tokenizer::specialIds() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabSize(); ++id) {
    if (isSpecial(id)) {
      ids.push_back(id);
    }
  }
  return ids;
}

} // namespace sluice
