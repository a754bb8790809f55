// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normal forms by utf8proc (Unicode 15).
#include "runtime/tokenizer/Normalizer.h"

#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace sluice {

namespace {
constexpr int kMaxDepth = 8;
}

Result<Normalizer> Normalizer::fromJson(const JsonView &view) {
  Normalizer normalizer;
  if (!view.isNull()) {
    SLUICE_RETURN_IF_ERROR(normalizer.add(view, 0));
  }
  return normalizer;
}

Status Normalizer::add(const JsonView &view, int depth) {
  auto type = view.type();
  if (!type) {
    return type.error();
  }
  if (*type == "Sequence" && depth < kMaxDepth) {
    const JsonView items = view.member("normalizers");
    if (!items.isArray()) {
      return items.wrong("expected an array");
    }
    for (size_t i = 0; i < items.size(); ++i) {
      SLUICE_RETURN_IF_ERROR(add(items.element(i), depth + 1));
    }
    return Status::ok();
  }
  if (*type == "NFC") {
    forms_.push_back(Form::Nfc);
  } else if (*type == "NFD") {
    forms_.push_back(Form::Nfd);
  } else if (*type == "NFKC") {
    forms_.push_back(Form::Nfkc);
  } else if (*type == "NFKD") {
    forms_.push_back(Form::Nfkd);
  } else {
    return view.notSupported("normalizer " + *type +
                             " is not supported; expected null, NFC, NFD, NFKC, NFKD or a Sequence "
                             "of these; give token ids instead of text (--ids)");
  }
  return Status::ok();
}

Result<std::string> Normalizer::apply(std::string_view text) const {
  std::string current(text);
  for (Form form : forms_) {
    int options = UTF8PROC_STABLE;
    options |= form == Form::Nfc || form == Form::Nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    options |= form == Form::Nfkc || form == Form::Nfkd ? UTF8PROC_COMPAT : 0;
    utf8proc_uint8_t *raw = nullptr;
    const utf8proc_ssize_t length =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(current.data()),
                     static_cast<utf8proc_ssize_t>(current.size()), &raw,
                     static_cast<utf8proc_option_t>(options));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, &std::free);
    if (length < 0) {
      return capacityReached(std::string("text can't be normalized: ") + utf8proc_errmsg(length));
    }
    current.assign(reinterpret_cast<const char *>(raw), static_cast<size_t>(length));
  }
  return current;
}

} // namespace sluice
