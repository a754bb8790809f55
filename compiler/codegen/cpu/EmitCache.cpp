// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPU code of cache_append: a row's keys and values into the paged cache, rounded to its element
// type.
#include "compiler/codegen/cpu/CacheBlock.h"
#include "compiler/codegen/cpu/Templates.h"

using namespace mlir;

namespace sluicec::cpu {

LogicalResult emitTemplate(kernel::CacheAppendOp op, KernelFrame &f) {
  CacheBlock layout{cast<lm::CacheType>(op.getLayout()), op.getBlockTokens(), op.getLayer()};
  int64_t heads = layout.type.getKvHeads(), keyHead = layout.type.getKeyHead();
  int64_t valueHead = layout.type.getValueHead();
  Type element = layout.type.getElement();
  Value keys = f.buffer(op.getKeys()), values = f.buffer(op.getValues());
  Value rowSeq = f.buffer(op.getRowSeq()), rowIndex = f.buffer(op.getRowIndex());
  Value table = f.buffer(op.getBlockTable()), cache = f.buffer(op.getCache());
  Value maxBlocks = f.maxBlocks();
  f.forCells([&](Value row) {
    Value seq = f.toI64(f.loadAt(f.i32(), rowSeq, row));
    Value position = f.toI64(f.loadAt(f.i32(), rowIndex, row));
    Value inBlock = f.rem(position, layout.blockTokens);
    Value entry = f.add(f.mul(seq, maxBlocks), f.div(position, layout.blockTokens));
    Value block = f.toI64(f.loadAt(f.i32(), table, entry));
    // A dropped block takes nothing.
    f.ifThen(f.compare(arith::CmpIPredicate::sge, block, f.index(0)), [&] {
      f.loop(0, heads, 1, [&](Value head) {
        Value toKeys = layout.keys(f, cache, block, head);
        Value toValues = f.at(element, layout.values(f, toKeys), f.mul(inBlock, valueHead));
        Value source = f.add(f.mul(row, heads), head);
        Value fromKeys = f.at(f.f32(), keys, f.mul(source, keyHead));
        Value fromValues = f.at(f.f32(), values, f.mul(source, valueHead));
        f.forChunks(keyHead, [&](Value i, int64_t lanes) {
          Value v = f.truncate(f.loadLanes(f.f32(), f.at(f.f32(), fromKeys, i), lanes), element);
          Value to = f.at(element, toKeys, f.add(f.mul(i, layout.blockTokens), inBlock));
          for (int64_t l = 0; l < lanes; ++l) {
            f.store(f.lane(v, l), f.at(element, to, l * layout.blockTokens));
          }
        });
        f.forChunks(valueHead, [&](Value i, int64_t lanes) {
          Value v = f.loadLanes(f.f32(), f.at(f.f32(), fromValues, i), lanes);
          f.storeLanes(f.truncate(v, element), f.at(element, toValues, i), lanes);
        });
      });
    });
  });
  return success();
}

} // namespace sluicec::cpu
