// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a layer's keys and values lie in a cache block (kernel.cache); used by cache_append and
// attention.
#pragma once

#include "compiler/codegen/cpu/KernelBuilder.h"

namespace sluicec::cpu {

/// A block holds, per layer and kv head, keys [key_head, block_tokens], then values [block_tokens,
/// value_head].
struct CacheBlock {
  lm::CacheType type;
  int64_t blockTokens, layer;

  int64_t headElements() const { return blockTokens * (type.getKeyHead() + type.getValueHead()); }
  int64_t blockElements() const { return headElements() * type.getKvHeads() * type.getLayers(); }

  /// Address of the keys of kv head `head` in block `block`; its values follow.
  Value keys(KernelBuilder &b, Value cache, Value block, Value head) const {
    Value inBlock = b.add(b.mul(head, headElements()), layer * headElements() * type.getKvHeads());
    return b.at(type.getElement(), cache, b.add(b.mul(block, blockElements()), inBlock));
  }
  Value values(KernelBuilder &b, Value keys) const {
    return b.at(type.getElement(), keys, blockTokens * type.getKeyHead());
  }
};

} // namespace sluicec::cpu
