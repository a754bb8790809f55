// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Look-up in the op table.
#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace sluicec::onnx;

int64_t OpRow::newestVersion() const {
  int64_t newest = 0;
  for (int16_t version : sinceVersions) {
    newest = std::max<int64_t>(newest, version);
  }
  return newest;
}

int64_t OpRow::resolveVersion(int64_t opset) const {
  int64_t resolved = 0;
  for (int16_t version : sinceVersions) {
    if (version <= opset) {
      resolved = std::max<int64_t>(resolved, version);
    }
  }
  return resolved;
}

static llvm::StringRef canonicalDomain(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

const OpRow *sluicec::onnx::findOp(llvm::StringRef domain, llvm::StringRef opType) {
  auto key = std::pair(canonicalDomain(domain), opType);
  llvm::ArrayRef<OpRow> rows = opTable();
  auto keyOf = [](const OpRow &row) {
    return std::pair<llvm::StringRef, llvm::StringRef>(row.domain, row.opType);
  };
  const OpRow *row = llvm::partition_point(rows, [&](const OpRow &r) { return keyOf(r) < key; });
  return row != rows.end() && keyOf(*row) == key ? row : nullptr;
}

std::string sluicec::onnx::nearestOp(llvm::StringRef domain, llvm::StringRef opType) {
  // A name is near when up to two fifths of its letters differ; the same name in another domain is
  // nearer than any other.
  const OpRow *best = nullptr;
  unsigned bestDistance = opType.size() * 2 / 5 + 1;
  for (const OpRow &row : opTable()) {
    unsigned distance = opType.edit_distance_insensitive(row.opType, true, bestDistance);
    bool sameDomain = canonicalDomain(domain) == row.domain;
    if (distance < bestDistance || (best && distance == bestDistance && sameDomain)) {
      best = &row;
      bestDistance = distance;
    }
  }
  return best ? qualifiedOpName(best->domain, best->opType) : "";
}

// Calls `visit` with each attribute's name and rule until it returns true.
static void forEachAttribute(const OpRow &row,
                             llvm::function_ref<bool(llvm::StringRef, AttributeRule)> visit) {
  for (llvm::StringRef entry : llvm::split(row.attributes, ' ')) {
    if (entry.empty()) {
      continue;
    }
    auto [name, rest] = entry.split(':');
    AttributeRule rule;
    if (rest.ends_with("!") || rest.ends_with("?")) {
      rule.presence = rest.ends_with("!") ? AttributeRule::Presence::Required
                                          : AttributeRule::Presence::Optional;
      rule.type = rest.drop_back();
    } else {
      rule.presence = AttributeRule::Presence::Defaulted;
      std::tie(rule.type, rule.defaultText) = rest.split('=');
    }
    if (visit(name, rule)) {
      return;
    }
  }
}

std::optional<AttributeRule> sluicec::onnx::attributeRule(const OpRow &row, llvm::StringRef name) {
  std::optional<AttributeRule> found;
  forEachAttribute(row, [&](llvm::StringRef entry, AttributeRule rule) {
    if (entry == name) {
      found = rule;
    }
    return entry == name;
  });
  return found;
}

llvm::SmallVector<llvm::StringRef> sluicec::onnx::requiredAttributes(const OpRow &row) {
  llvm::SmallVector<llvm::StringRef> names;
  forEachAttribute(row, [&](llvm::StringRef name, AttributeRule rule) {
    if (rule.presence == AttributeRule::Presence::Required) {
      names.push_back(name);
    }
    return false;
  });
  return names;
}

std::string sluicec::onnx::qualifiedOpName(llvm::StringRef domain, llvm::StringRef opType) {
  domain = canonicalDomain(domain);
  return domain.empty() ? opType.str() : (domain + "." + opType).str();
}

std::pair<llvm::StringRef, llvm::StringRef>
sluicec::onnx::splitQualifiedOpName(llvm::StringRef name) {
  size_t dot = name.rfind('.');
  return dot == llvm::StringRef::npos ? std::pair(llvm::StringRef(), name)
                                      : std::pair(name.take_front(dot), name.drop_front(dot + 1));
}
